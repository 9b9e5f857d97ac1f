"""How the site is built: Sphinx over Markdown (MyST), the pydata theme, nothing from the network.

make docs        builds site/, and stops at the first warning
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_site"))

from anaphora.version import __version__

project, author = "Anaphora", "The Anaphora engineers"
release = version = __version__
copyright = "the Anaphora engineers, Apache-2.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "mathml", "offline", "public"]
exclude_patterns = ["_site"]
myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_inline", "deflist"]
myst_heading_anchors = 4
highlight_language = "text"  # a block says what it holds, or is shown as it stands
pygments_style = "default"
default_role = "code"
nitpicky = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "Anaphora"
html_static_path = ["_site/static"]
html_css_files = ["style.css"]
html_js_files = ["copy.js"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_prev_next": True,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
    "collapse_navigation": False,
    "show_nav_level": 1,
    "back_to_top_button": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}
html_context = {"default_mode": "auto"}
