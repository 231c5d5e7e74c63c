"""``python -m cornerstep``: the command line."""

from cornerstep.cli import main

main()
