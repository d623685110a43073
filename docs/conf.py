"""How Sphinx builds the site; ``make docs`` runs it with warnings as errors."""

import os
import tomllib
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]

project, author = "manykernels", "The manykernels developers"
copyright = "the manykernels developers, BSD-3 license"
version = release = PROJECT["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_build", "_templates", "**/GALLERY_HEADER.rst"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3
default_role = "py:obj"  # of the backticks in docstrings

autosummary_generate = True
# methods that are documented there, with references which lead nowhere here
autosummary_context = {
    "of_scikit_learn": [
        *("get_metadata_routing", "get_params", "set_params", "set_output", "set_callbacks"),
        *("set_fit_request", "set_predict_request", "set_score_request", "score"),
        *("fit_transform", "transform", "inverse_transform", "get_feature_names_out"),
        *("get_support", "fit_predict", "set_transform_request", "set_partial_fit_request"),
        *("set_decision_function_request", "set_predict_proba_request"),
    ]
}
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # numpydoc has the types
autodoc_inherit_docstrings = True
numpydoc_show_class_members = False  # the templates list them
numpydoc_xref_param_type = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "abort_on_example_error": False,  # all failures are listed, and each is a warning
    "doc_module": ("manykernels",),
    "backreferences_dir": "gallery/backreferences",
    "reference_url": {"manykernels": None},
}

html_theme = "pydata_sphinx_theme"
html_title = "manykernels"
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "manykernels"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
NO_SECTIONS = ("index", "which", "start", "case", "believe", "troubleshooting", "citing")
html_sidebars = {page: [] for page in NO_SECTIONS}
html_context = {"default_mode": "auto"}

linkcheck_timeout = 10
linkcheck_workers = 8
linkcheck_retries = 1


def by_last_name(app, env, node, content):
    """Names in backticks without their module, such as `on_groups` in the docstring of an
    estimator, where only one thing of the reference has that name.
    """
    name, python = node.get("reftarget", ""), env.domains["py"]
    found = [
        full
        for full, entry in python.objects.items()
        if full.rpartition(".")[2] == name and entry.objtype in ("class", "function")
    ]
    if node.get("refdomain") != "py" or len(found) != 1:
        return None
    return python.resolve_xref(env, node["refdoc"], app.builder, "obj", found[0], node, content)


def setup(app):
    app.connect("missing-reference", by_last_name)
