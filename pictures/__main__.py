"""``python -m pictures``: draw the pictures in docs/pictures and write the benchmark page."""

from __future__ import annotations

from pictures.capabilities import PICTURES

if __name__ == "__main__":
    for draw in PICTURES:
        file = draw()
        print(f"{file}: {file.stat().st_size / 1e3:.0f} kB")
