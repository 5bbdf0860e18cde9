# SPDX-License-Identifier: Apache-2.0
"""The hand-written stubs of headwise.torch say what is there: every name, argument and default."""

import ast
import inspect
from pathlib import Path

import pytest
import torch

import headwise.torch
from headwise.torch import book

FOLDER = Path(headwise.torch.__file__).parent
MODULES = {headwise.torch: FOLDER / "__init__.pyi", book: FOLDER / "book.pyi"}


def callables(module, stub):
    """(its name, the stub's function, the real one) of each function, and of each method that a class defines."""
    for node in stub.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node, getattr(module, node.name)
        if isinstance(node, ast.ClassDef):
            real = getattr(module, node.name)
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and not method.decorator_list:
                    yield f"{node.name}.{method.name}", method, getattr(real, method.name)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_stub_has_the_names_arguments_and_defaults(module):
    stub = ast.parse(MODULES[module].read_text())
    listed = next(node.value for node in stub.body if isinstance(node, ast.Assign))
    assert ast.literal_eval(listed) == module.__all__ == sorted(module.__all__)
    defined = {node.name for node in stub.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert {name for name in defined if not name.startswith("_")} == set(module.__all__) - {"book"}
    checked = 0
    for name, node, real in callables(module, stub):
        parameters = inspect.signature(real).parameters.values()
        plain = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert [a.arg for a in node.args.args] == plain, name
        assert [a.arg for a in node.args.kwonlyargs] == [p.name for p in parameters if p.kind is p.KEYWORD_ONLY], name
        defaults = [repr(p.default) for p in parameters if p.default is not p.empty]
        given = [ast.unparse(d) for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None]
        assert given == defaults, name
        checked += 1
    assert checked >= 3


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_name_has_a_docstring(module):
    for name in module.__all__:
        assert inspect.getdoc(getattr(module, name)), name


def test_the_function_and_the_module_begin_with_torchs_own_arguments():
    for ours, theirs in ((headwise.torch.MultiheadAttention, torch.nn.MultiheadAttention),):
        wanted = list(inspect.signature(theirs).parameters)
        assert list(inspect.signature(ours).parameters)[: len(wanted)] == wanted
        assert list(inspect.signature(ours.forward).parameters) == list(inspect.signature(theirs.forward).parameters)
    wanted = ["query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"]
    assert list(inspect.signature(headwise.torch.scaled_dot_product_attention).parameters)[:8] == wanted
