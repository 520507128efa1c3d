"""Every page leads somewhere and stays short: links and anchors resolve, limits hold, indexes list what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support import ROOT

FOLDERS = ("benchmarks", "csrc", "docs", "examples", "reduce_ops", "tests", "tools")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
EXPERIMENTS = sorted(page for page in (ROOT / "docs/experiments").glob("*.md") if page.name != "README.md")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    """The relative links and pictures of a page."""
    targets = re.findall(r"\]\(([^)\s]+)[^)]*\)", without_code(page.read_text()))
    return [target for target in targets if not re.match(r"https?:|mailto:", target)]


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in links(page):
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# A `heading`, isn't it?\n```sh\n# no heading\n```\n")
    good = "[a](other.md) [b](#title) [c](other.md#a-heading-isnt-it) [d](https://example.org/x) ![e](other.md)"
    bad = "[f](gone.md) [g](#gone) [h](other.md#gone) [i](other.md#no-heading) ![j](k.svg)"
    page.write_text(f"# Title\n{good}\n{bad}\n")
    assert broken_links(page) == ["gone.md", "#gone", "other.md#gone", "other.md#no-heading", "k.svg"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize(("page", "most"), [("README.md", 200), ("docs/performance.md", 250)])
def test_pages_that_everybody_reads_are_short(page: str, most: int) -> None:
    assert len((ROOT / page).read_text().splitlines()) <= most


@pytest.mark.parametrize("folder", ["docs/experiments", "docs/tables"])
def test_an_index_lists_every_page_of_its_folder_once(folder: str) -> None:
    listed = [link for link in links(ROOT / folder / "README.md") if "/" not in link and not link.startswith("#")]
    assert sorted(listed) == sorted(page.name for page in (ROOT / folder).glob("*.md") if page.name != "README.md")


@pytest.mark.parametrize("page", EXPERIMENTS, ids=name_of)
def test_an_experiment_is_a_question_with_method_figures_and_verdict(page: Path) -> None:
    headings = re.findall(r"^(#+ .*)$", without_code(page.read_text()), re.MULTILINE)
    assert headings[0].startswith("# ") and headings[0].endswith("?")
    assert headings[1:] == ["## Method", "## Figures", "## Verdict"]
