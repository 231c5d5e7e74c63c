"""Options that several commands have, and what is made of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from cornerstep.cli.data import Layout
from cornerstep.cli.screen import UserError


def flag(*names: str, **options: Any) -> Any:
    """An option that is there or not; its help does not speak of a value."""
    return typer.Option(*names, metavar="", **options)


ModelFile = Annotated[Path, typer.Argument(help="Model file.", metavar="MODEL")]
Data = Annotated[
    Path,
    typer.Argument(
        help="svmlight, CSV (.gz, or - for standard input), Parquet, npy or npz.", metavar="DATA"
    ),
]
Sep = Annotated[
    str | None, typer.Option(help="Separator of a CSV file, or tab; by default found out.")
]
Header = Annotated[
    bool | None,
    flag(
        "--header/--no-header",
        help="Whether the first row of a CSV file names the columns; by default found out.",
    ),
]
Stream = Annotated[
    bool | None,
    flag(
        "--stream/--no-stream",
        help="Linear multi-class models: read the data in blocks; by default where it is large.",
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="Column to leave out; may be repeated.", metavar="NAME"),
]
Json = Annotated[bool, flag("--json", help="Results as JSON.")]


def layout_of(sep: str | None, header: bool | None) -> Layout:
    """How a CSV file is written, by the options."""
    sep = {"tab": "\t", "\\t": "\t", "space": " "}.get(sep or "", sep)
    if sep is not None and (len(sep) != 1 or sep in '"\r\n'):
        raise UserError(f"--sep must be one character, or tab or space, got {sep!r}")
    return Layout(sep, header)


def refuse_overwriting(inputs: Iterable[Path], outputs: Iterable[Path | None]) -> None:
    """Complain about an output that would take the place of an input."""
    for output in outputs:
        for given in inputs:
            if (
                output is not None
                and output.is_file()
                and given.exists()
                and (output.samefile(given))
            ):
                raise UserError(f"{output} is what is read, and would be overwritten: name another")


def check_outputs(*paths: Path | None) -> None:
    """Before an hour of training rather than after."""
    for path in paths:
        if path is not None and not path.absolute().parent.is_dir():
            raise UserError(f"cannot write {path}: there is no folder {path.parent}")
        if path is not None and path.is_dir():
            raise UserError(f"cannot write {path}: it is a folder")
    named = [path.resolve() for path in paths if path is not None]
    if twice := next((path for k, path in enumerate(named) if path in named[:k]), None):
        raise UserError(f"{twice.name} would be written twice: name another file for each output")
