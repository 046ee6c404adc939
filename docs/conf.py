"""Sphinx settings. `make docs` builds the site in docs/_build/html; nothing is fetched while it is built or read."""

import datetime
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ.setdefault("MPLBACKEND", "agg")

import site_pages  # noqa: E402

import taskloss  # noqa: E402

project = "taskloss"
author = "The taskloss developers"
copyright = f"{datetime.date.today().year}, {author}. BSD 3-clause licence"
version = release = taskloss.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "site_pages",  # in _ext: the reference, the tables of benchmarks, and pages that no toctree names
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = [
    "_build",
    "_ext",
    "_static",
    "_templates",
    "**/README.md",
    "auto_examples/**/*.ipynb",
    "auto_examples/**/*.py",
]
exclude_patterns += ["auto_examples/**/*.md5", "auto_examples/**/*.zip", "auto_examples/**/*.json"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
templates_path = ["_templates"]
default_role = "py:obj"
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 4
# Formulas are written in plain text, as in the code, so that no page needs a script from elsewhere.

autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
autodoc_member_order = "groupwise"
autosummary_generate = site_pages.write_reference(HERE / "api")
autosummary_imported_members = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples")],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"[/\\]plot_",
    "abort_on_example_error": True,
    "backreferences_dir": "api/backreferences",
    "doc_module": ("taskloss",),
    "capture_repr": (),
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "min_reported_time": 30,
    "plot_gallery": True,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
}

html_theme = "pydata_sphinx_theme"
html_title = "taskloss"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "header_links_before_dropdown": 6,
    "icon_links": [],
    "logo": {"text": "taskloss"},
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "pygments_dark_style": "github-dark",
    "pygments_light_style": "tango",
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "show_toc_level": 2,
}
html_sidebars = {"index": [], "start": [], "changelog": []}
