"""Services for end-to-end tests, always taken down again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.apps.project import Options
from tests.e2e.site import Site, new_site, quick

MakeSite = Callable[..., Site]


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[MakeSite]:
    """Make services of any options; each is taken down and looked after."""
    made: list[Site] = []

    def make(options: Options | None = None) -> Site:
        folder = tmp_path / f"site-{len(made)}"
        folder.mkdir()
        made.append(new_site(folder, options or quick()))
        return made[-1]

    yield make
    for site in made:
        site.close()


@pytest.fixture
def site(make_site: MakeSite) -> Site:
    """A quick service whose first release serves."""
    site = make_site()
    site.good("deploy")
    return site


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service that stands for all tests of a module: what one does must not hurt the next."""
    site = new_site(tmp_path_factory.mktemp("standing"), quick())
    site.good("deploy")
    yield site
    site.close()
