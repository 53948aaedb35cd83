"""Settings of the documentation; ``make docs`` builds it.  Nothing is fetched from the network."""

import os
import re
import sys
import warnings
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import sketchlearn
from sketchlearn import learn, plots  # noqa: F401  (loaded when first named; autodoc should find them)

project = "sketchlearn"
author = "The sketchlearn developers"
copyright = f"{author}, BSD-3-Clause"
version = release = sketchlearn.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "cli_reference",
    "mathml",
]
exclude_patterns = ["_build", "_templates", "_ext", "**sg_execution_times.rst"]
templates_path = ["_templates"]
highlight_language = "text"
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(numpy|scipy|sklearn|matplotlib|pyarrow)\..*"),
    # what docstrings name of the inside, which has no pages
    ("py:mod", r"sketchlearn\..*"),
    ("py:class", r"sketchlearn\.(learn\.models|features\.operator|files)\..*"),
    ("py:func", r"sketchlearn\.(decoders\.profile|decoders\.noise|designs|features\.quartic|learn\.graphs)\..*"),
    ("py:data", r"sketchlearn\.decoders\.DECODERS|POLICY"),
    ("py:class", r"Entry|Exam|Finding"),
]

# -- Markdown --------------------------------------------------------------------------------------

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = "$ "

# -- reference from docstrings ---------------------------------------------------------------------

autosummary_generate = True
# files whose names differ in case only are one file on some systems
autosummary_filename_map = {
    "sketchlearn.sketch": "sketchlearn.sketch-function",
    "sketchlearn.sweep": "sketchlearn.sweep-function",
}
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False


def without_private_arguments(app, what, name, obj, options, signature, return_annotation):
    """Signatures of dataclasses without their private fields."""
    if what == "class" and signature and ", _" in signature:
        kept = [part for part in signature.strip("()").split(", ") if not part.startswith("_")]
        return f"({', '.join(kept)})", return_annotation
    return None


def is_from_elsewhere(app, what, name, obj, skip, options):
    """Leave out the methods that scikit-learn makes for metadata routing."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing|set_output", name) else None


def setup(app):
    app.connect("autodoc-process-signature", without_private_arguments)
    app.connect("autodoc-skip-member", is_from_elsewhere)


# -- examples --------------------------------------------------------------------------------------

warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "plot_gallery": True,
    "abort_on_example_error": False,
    "min_reported_time": 1000,
    "copyfile_regex": r".*\.rst",
}

# -- looks -----------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = f"sketchlearn {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "sketchlearn"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
html_sidebars = {"index": []}
html_context = {"default_mode": "auto"}
