"""Sphinx: ``make docs`` builds the site in site/, without the network, its examples run."""

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from cornerstep import __version__ as release
from cornerstep.learning.estimator import CertifiedEstimator

project = "cornerstep"
author = project_copyright = "The cornerstep developers"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "pictures.sphinx_site",
]
exclude_patterns = ["gallery/*.md5", "gallery/*.ipynb"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"

autodoc_typehints = "none"  # docstrings say it in words
autodoc_member_order = "bysource"
autodoc_mock_imports = [] if find_spec("torch") else ["torch"]
autosummary_filename_map = {"cornerstep.certificate": "cornerstep.certificate-function"}
autosummary_context = {"protocol": [name for name in vars(CertifiedEstimator) if name[0] != "_"]}
templates_path = ["reference/templates"]
numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"cornerstep {release}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sourcelink = html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("pictures.sphinx_site.scrape",),
    "reset_modules": ("pictures.sphinx_site.reset",),
    "backreferences_dir": None,
    "doc_module": ("cornerstep",),
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
}

# The pages beside the text of each, in groups; index.md stays plain Markdown.
contents = {
    "Start": ["start", "choose", "certificates", "gallery/index"],
    "Models": [
        "multiclass",
        "probe",
        "kernel",
        "structured",
        "tagging",
        "boosting",
        "minimize",
        "domains",
    ],
    "Use": ["command-line", "model-files", "reports", "scaling", "gpu", "migration", "extending"],
    "Look up": ["reference/index", "mathematics", "references", "versions"],
    "Evidence": ["benchmarks", "reproduction", "attack", "architecture"],
}
