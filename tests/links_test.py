# SPDX-License-Identifier: Apache-2.0
"""Every link between the project's pages leads to a file that is there, and to a heading that is there."""

import re
from pathlib import Path

import repository

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(text):
    """The anchors of a page's headings: lower case, spaces to hyphens, punctuation gone."""
    headings = re.findall(r"^#+\s+(.*)$", CODE_BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page, text, root=repository.ROOT):
    """Links of a page, given relative to the root, that lead nowhere."""
    found = []
    for target in LINK.findall(CODE_BLOCK.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (root / page).parent / path if path else root / page
        if not file.exists() or (
            anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8"))
        ):
            found.append(f"{page}: {target}")
    return found


def test_every_link_leads_somewhere():
    pages = repository.files(".md")
    assert Path("README.md") in pages
    assert [link for page in pages for link in broken(page, repository.text(page))] == []


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "there.md").write_text("# A heading, here\n")
    page = "[a](there.md) [b](there.md#a-heading-here) [c](gone.md) [d](there.md#gone)"
    assert broken(Path("page.md"), page, tmp_path) == ["page.md: gone.md", "page.md: there.md#gone"]
