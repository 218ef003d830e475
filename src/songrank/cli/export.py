"""``songrank export``: a trained model as one file, in ONNX or the format of torch.export."""

from pathlib import Path
from typing import Annotated

import typer

from songrank.cli.printing import echo
from songrank.core.errors import UserError


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished run or of a model.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Output file: .onnx or .pt2.")],
    format: Annotated[str | None, typer.Option(help="onnx or torch; by default chosen by the file suffix.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")] = False,
) -> None:
    """Write the model with its weights to one file: ONNX, or the format of torch.export.

    The file is loaded again and its scores are checked against the model. Its inputs are those of the model: indices
    of users, transformed features or indices of words; docs/how-to/export.md shows how to make them. The original ids
    and the users' seen items are written beside it, to OUTPUT with the suffix .ids.json.

        songrank export runs/movielens-1m-song-0 -o model.onnx
    """
    from songrank.io.tables.table_writer import check_output
    from songrank.serving.export import SUFFIXES, TOLERANCE, export_folder, export_shapes, ids_file
    from songrank.serving.open import open_model

    if format is not None and format not in SUFFIXES:
        raise UserError(f"format is {format!r}; expected {' or '.join(SUFFIXES)}")
    suffixes = tuple(SUFFIXES.values()) if format is None else (SUFFIXES[format],)
    check_output(output, overwrite=overwrite, suffixes=suffixes)
    chosen = next(word for word, suffix in SUFFIXES.items() if suffix == output.suffix)
    folder = open_model(run)
    if not overwrite and ids_file(output).exists():
        raise UserError(f"{ids_file(output)}: already exists; pass --overwrite to replace it, or choose another -o")
    path = export_folder(folder, output, chosen)
    if not quiet:
        takes, gives = export_shapes(folder.inputs, folder.info["sizes"], times=folder.model.reads_times)
        exact = f"checked against the model (tolerance {TOLERANCE:g} of its largest score, or of 1)"
        ids = "" if folder.item_ids is None else f", ids to {ids_file(path)}"
        size = path.stat().st_size / 1e6
        echo(f"input {takes}, output scores float32 {gives}; {exact}; wrote {size:,.1f} MB to {path}{ids}")
