"""Formulas as MathML, which browsers draw by themselves: no script, no fonts, no network."""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

_log = logging.getLogger(__name__)


def _formula(node, as_block):
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        _log.warning("formula can't be drawn: %s", error, location=node)
        return ""


def _inline(writer, node):
    writer.body.append(_formula(node, False))
    raise nodes.SkipNode


def _block(writer, node):
    writer.body.append(f'<div class="formula">{_formula(node, True)}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
