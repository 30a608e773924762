"""A simulation as a page to open in a browser: pictures side by side, and the same in words and figures below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from cli.picture import DARK, LIGHT


def page(pictures: Sequence[str], tables: Mapping[str, str], title: str, comparison: str = "") -> str:
    """Returns the page; ``tables`` has the table of text of each scenario, ``comparison`` the differences."""
    headed = len(tables) > 1
    columns = "".join(
        f"<section>{f'<h2>{escape(name)}</h2>' if headed else ''}{picture}"
        f'<pre tabindex="0">{escape(table)}</pre></section>'
        for picture, (name, table) in zip(pictures, tables.items(), strict=True)
    )
    above = f'<pre tabindex="0">{escape(comparison)}</pre>' if comparison else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{_style()}</style></head>"
        f"<body><h1>{escape(title)}</h1>{above}<main>{columns}</main></body></html>\n"
    )


def _style() -> str:
    """Two columns if there is space; the SVGs contain the styles of their content."""
    dark = f"background:{DARK['paper']};color:{DARK['text']}"
    return (
        f"body{{font-family:system-ui,sans-serif;margin:1rem;background:{LIGHT['paper']};color:{LIGHT['text']}}}"
        f"@media(prefers-color-scheme:dark){{body{{{dark}}}}}h1{{font-size:1.4rem}}h2{{font-size:1.1rem}}"
        "main{display:flex;gap:1.5rem;align-items:flex-start}section{flex:0 1 auto;min-width:0}"
        "svg{max-width:100%;height:auto}pre{overflow:auto;font-size:12px}"
        "@media(max-width:1100px){main{flex-direction:column}}"
    )
