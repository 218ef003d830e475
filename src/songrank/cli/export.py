"""``songrank export``: a trained model as one file for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from songrank.core.errors import UserError


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, or of a model.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write: .onnx or .pt2.")],
    format: Annotated[str | None, typer.Option(help="onnx or torch; as the name of the file ends.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Write the model to one file, weights inside: ONNX, or the format of torch.export.

    The file is loaded back and must give the model's scores before it gets its name. It takes what the model takes:
    numbers of users, features after their transformation, numbers of words; docs/export.md says how to make these.

        songrank export runs/movielens-1m-song-0 -o model.onnx
    """
    from songrank.io.tables.table_writer import check_output
    from songrank.serving.export import SUFFIXES, TOLERANCE, export_model, export_shapes
    from songrank.serving.open import open_model

    if format is not None and format not in SUFFIXES:
        raise UserError(f"format is {format!r}; expected one of {', '.join(SUFFIXES)}")
    suffixes = tuple(SUFFIXES.values()) if format is None else (SUFFIXES[format],)
    check_output(output, overwrite=overwrite, suffixes=suffixes)
    chosen = next(word for word, suffix in SUFFIXES.items() if suffix == output.suffix)
    folder = open_model(run)
    path = export_model(folder.model, folder.inputs, folder.info["sizes"], output, chosen)
    if not quiet:
        takes, gives = export_shapes(folder.inputs, folder.info["sizes"])
        exact = f"checked against the model to {TOLERANCE:g} of its largest score, or of 1"
        size = path.stat().st_size / 1e6
        typer.echo(f"takes {takes}, gives scores float32 {gives}; {exact}; wrote {size:,.1f} MB to {path}")
