"""A rollout's report as one HTML file that asks nobody for anything: no script, no font, no image.

words      sentences and figures, shared with the Markdown
curves     a gate's histograms and confidence sequences, thinned
figures    the charts of a gate, each with its table
page       all of it filled into templates/report/page.html.j2
"""

from __future__ import annotations

from opsctl.report_html.page import html_of

__all__ = ["html_of"]
