# SPDX-License-Identifier: Apache-2.0
"""The hand-written stubs say what is really there: every name, every argument, every default."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import headwise
from headwise import _headwise

FOLDER = Path(headwise.__file__).parent
PUBLIC = ast.parse((FOLDER / "__init__.pyi").read_text())
EXTENSION = ast.parse((FOLDER / "_headwise.pyi").read_text())


def definitions(body):
    """Functions and classes by name; of overloads the last one, which is the widest."""
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def stub_arguments(function):
    """(name, kind, default) of each argument of a stub's function."""
    a = function.args
    plain = [*a.posonlyargs, *a.args]
    defaults = [None] * (len(plain) - len(a.defaults)) + a.defaults
    found = [(x.arg, "plain", ast.unparse(d) if d else None) for x, d in zip(plain, defaults, strict=True)]
    if a.vararg:
        found.append((a.vararg.arg, "*", None))
    found += [
        (x.arg, "keyword", ast.unparse(d) if d else None) for x, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)
    ]
    if a.kwarg:
        found.append((a.kwarg.arg, "**", None))
    return found


KINDS = {
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "plain",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def runtime_arguments(function):
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, KINDS[p.kind], None if p.default is p.empty else repr(p.default)) for p in parameters]


def public_names(owner):
    return {name for name in vars(owner) if not name.startswith("_") or name in ("__init__", "__call__")}


def test_the_stub_lists_the_public_names():
    listed = next(
        node.value for node in PUBLIC.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
    )
    assert ast.literal_eval(listed) == headwise.__all__ == sorted(headwise.__all__)
    found = set(definitions(PUBLIC.body)) - {"_AttentionLayer"} | {"__version__"}
    assert found == set(headwise.__all__)


FUNCTIONS = [name for name, node in definitions(PUBLIC.body).items() if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_the_arguments_of_its_stub(name):
    assert stub_arguments(definitions(PUBLIC.body)[name]) == runtime_arguments(getattr(headwise, name))


CLASSES = [name for name, node in definitions(PUBLIC.body).items() if isinstance(node, ast.ClassDef)]


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_the_methods_of_its_stub(name):
    stub = definitions(PUBLIC.body)[name]
    real = headwise.MultiHeadAttention.__mro__[1] if name == "_AttentionLayer" else getattr(headwise, name)
    if hasattr(real, "_fields"):
        fields = [(n.target.id, ast.unparse(n.value) if n.value else None) for n in stub.body]
        defaults = real._field_defaults
        assert fields == [(field, repr(defaults[field]) if field in defaults else None) for field in real._fields]
        return
    methods = definitions(stub.body)
    expected = public_names(real) - ({"__init__"} if name == "_AttentionLayer" else set())
    assert set(methods) == expected
    for method, node in methods.items():
        if isinstance(vars(real)[method], property):
            assert [ast.unparse(decorator) for decorator in node.decorator_list] == ["property"]
        else:
            assert stub_arguments(node) == runtime_arguments(vars(real)[method])


def argument_count(function):
    """Of a function of the extension, from the signature that nanobind keeps."""
    ((signature, *_),) = function.__nb_signature__
    inner = re.fullmatch(r"def \w+\((.*)\) -> .*", signature).group(1)
    return len([part for part in re.split(r", (?![^\[]*\])", inner) if part not in ("", "self", "/")])


def test_the_extension_has_the_names_of_its_stub():
    annotated = {node.target.id for node in EXTENSION.body if isinstance(node, ast.AnnAssign)}
    assert set(definitions(EXTENSION.body)) | annotated == public_names(_headwise) | {"__version__"}


def test_the_extension_has_the_arguments_of_its_stub():
    for name, node in definitions(EXTENSION.body).items():
        real = getattr(_headwise, name)
        if isinstance(node, ast.FunctionDef):
            assert len(stub_arguments(node)) == argument_count(real), name
            continue
        for method, stub in definitions(node.body).items():
            if stub.decorator_list or method == "__init__":
                continue
            assert len(stub_arguments(stub)) - 1 == argument_count(getattr(real, method)), f"{name}.{method}"


def test_every_public_name_has_a_docstring():
    for name in headwise.__all__:
        if name != "__version__":
            assert inspect.getdoc(getattr(headwise, name)), name


def test_docstrings_give_the_shape_of_every_array():
    text = inspect.getdoc(headwise.attention) + inspect.getdoc(headwise.attention_backward)
    for shape in (
        "q: (batch, heads, seq_q, head_dim)",
        "k: (batch, kv_heads, seq_kv, head_dim)",
        "v: (batch, kv_heads, seq_kv, v_head_dim)",
        "grad_context: (batch, heads, seq_q, v_head_dim)",
    ):
        assert shape in text


def test_the_package_is_typed():
    assert (FOLDER / "py.typed").exists()
