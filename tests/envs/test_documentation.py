"""The documentation of the environments runs, and shows what the environments draw."""

import re
from pathlib import Path

import pytest
from matplotlib.image import imread

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "environments.md").read_text()


def test_every_python_block_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 6
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"environments.md, block {number}", "exec"), namespace)


def test_install_command_is_the_one_of_the_error() -> None:
    from ove_sb3.envs.simglucose_package import INSTALL

    assert f"```\n{INSTALL}\n```" in PAGE


@pytest.mark.parametrize("name", re.findall(r"images/(\w+\.png)", PAGE))
def test_pictures_exist_and_are_not_blank(name: str) -> None:
    picture = imread(DOCS / "images" / name)
    assert picture.shape[2] in (3, 4)
    assert len({tuple(pixel) for row in picture for pixel in row}) > 3
    assert (DOCS / "images" / name).stat().st_size < 50_000
