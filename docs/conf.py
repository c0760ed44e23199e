"""How Sphinx builds the site: `./scripts/docs`. A broken link, an unknown name or a failing example is an error."""

import re
from importlib.metadata import version as installed_version

project = "holdfast"
author = "holdfast contributors"
release = version = installed_version("holdfast")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_templates", "gallery/**/*.ipynb", "gallery/**/*.py", "gallery/**/*.codeobj.json"]
templates_path = ["_templates"]

# Markdown: links to headings are checked.
myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 4

# Reference: one page for each name, from the docstrings.
default_role = "py:obj"
suppress_warnings = ["ref.python"]  # a word in backticks that two classes have (`history`) is code, not a mistake
autosummary_generate = True
autosummary_imported_members = False
autodoc_typehints = "none"  # docstrings name the types
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
strip_signature_backslash = True  # else the underscore of `verdict_` is taken for markup
python_display_short_literal_types = True
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

# Tutorial and examples: run when the site is built; an error in one of them is an error of the build.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib", "seaborn"),
    "min_reported_time": 10**6,
}

html_theme = "pydata_sphinx_theme"
html_title = "holdfast"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "logo": {"text": "holdfast"},
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "gallery/tutorial": []}
html_context = {"default_mode": "auto"}
copyright = "holdfast contributors, MIT license"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def _add_title(app, docname, source):
    """Give the reproduced tables, which begin with a caption, the title that a page of the site needs."""
    if docname.startswith("reproduction/"):
        source[0] = f"# {docname.removeprefix('reproduction/').capitalize()}\n\n{source[0]}"


def _leave_out(app, what, name, obj, skip, options):
    """Leave out what scikit-learn adds to every estimator for its metadata routing."""
    return skip or name == "get_metadata_routing" or name.endswith("_request")


def _split_names(app, what, name, obj, options, lines):
    """Give attributes that stand in one line (`classes_, history_`) a line each, before napoleon reads them."""
    several = re.compile(r"\w+_(, \w+_)+")
    lines[:] = [name for line in lines for name in (line.split(", ") if several.fullmatch(line) else [line])]


def _keep_options_whole(app, pagename, templatename, context, doctree):
    """Keep browsers from cutting --option at its hyphens where a line of code is wrapped."""
    if "body" in context:
        context["body"] = re.sub(
            r"<pre>.*?</pre>",
            lambda block: re.sub(r"(?<![\w-])--[a-z][\w-]*", r'<span class="word">\g<0></span>', block[0]),
            context["body"],
            flags=re.DOTALL,
        )


def setup(app):
    """Called by Sphinx."""
    app.connect("html-page-context", _keep_options_whole)
    app.connect("autodoc-skip-member", _leave_out)
    app.connect("autodoc-process-docstring", _split_names, priority=100)
    app.connect("source-read", _add_title)
