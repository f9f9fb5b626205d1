"""Documentation page of the environments."""

import re
from pathlib import Path

import pytest
from matplotlib.image import imread

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "environments.md").read_text()


def test_install_command_equals_the_error_message() -> None:
    from ove_sb3.envs.diabetes.simglucose_package import INSTALL

    assert f"```\n{INSTALL}\n```" in PAGE


@pytest.mark.parametrize("name", re.findall(r"images/(\w+\.png)", PAGE))
def test_images_exist_and_are_not_blank(name: str) -> None:
    picture = imread(DOCS / "images" / name)
    assert picture.shape[2] in (3, 4)
    assert len({tuple(pixel) for row in picture for pixel in row}) > 3
    assert (DOCS / "images" / name).stat().st_size < 50_000
