"""The notebooks are stored without outputs, and run from top to bottom."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SHOWN = {
    "quickstart.ipynb": ["mean >= behavior:0: proven.", "<strong>Estimated return of PPO"],
    "company_table.ipynb": ["1.3 at row", "<strong>Estimated return of the candidate", "mean 0."],
}


def code_cells(name: str) -> list[dict[str, Any]]:
    cells = json.loads((EXAMPLES / name).read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_every_notebook_is_tested() -> None:
    assert set(SHOWN) == {path.name for path in EXAMPLES.glob("*.ipynb")}


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_notebooks_are_stored_without_outputs(name: str) -> None:
    cells = code_cells(name)
    assert len(cells) >= 6
    for cell in cells:
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        ast.parse("".join(cell["source"]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("name", sorted(SHOWN))
def test_notebooks_run(name: str, tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(EXAMPLES / name, as_version=4)  # type: ignore[no-untyped-call]
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output["output_type"] == "error"]
    shown = json.dumps(outputs, ensure_ascii=False)
    for text in SHOWN[name]:
        assert text in shown, text
    assert "Warning" not in shown
    assert shown.count("image/png") == (2 if name == "quickstart.ipynb" else 0)
    tables = [o for o in outputs if "text/html" in o.get("data", {})]
    assert len(tables) >= 2
