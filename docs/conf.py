"""The site of the documentation: ``make docs`` writes it to ``out/docs``, and fails at a link that leads nowhere.

The source folder is the repository's, so that links work here as they do on the page of the repository.
"""

from importlib.metadata import version as installed

project = "Sluice"
author = "The Sluice developers"
version = release = installed("sluice-etl")

extensions = ["myst_parser"]
include_patterns = ["docs/**/*.md", "docs/*.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/RESULTS.md"]
root_doc = "docs/index"
html_theme = "furo"
html_title = f"Sluice {release}"
html_show_copyright = False

myst_heading_anchors = 4  # links may name headings by #

suppress_warnings = ["misc.highlighting_failure"]  # some examples are mistakes, which no highlighter reads
