"""Reads the price data out of a genai-prices wheel: prints it as JSON, writes license and version next to it.

The data is a Python module that only builds objects. It is read as syntax, never run: nothing of the wheel
is executed and none of its own dependencies is needed. Rates stay decimal text, so no float touches them.
"""

import ast
import hashlib
import json
import pathlib
import sys
import zipfile

# What a reader of prices has no use for, or what is prose.
DROPPED = {"description", "price_comments", "pricing_urls"}
DROPPED_OF_MODELS = DROPPED | {"name"}


def call_name(node):
    return node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id


def clock(node):
    parts = [ast.literal_eval(arg) for arg in node.args]
    for keyword in node.keywords:
        # The data writes every time of day in UTC; anything else must not pass unseen.
        assert keyword.arg == "tzinfo", ast.unparse(node)
        assert ast.unparse(keyword.value) == "datetime.UTC", ast.unparse(node)
    hour, minute, second = (parts + [0, 0, 0])[:3]
    return f"{hour:02}:{minute:02}:{second:02}+00:00"


def value(node):
    if isinstance(node, ast.List):
        return [value(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {value(key): value(item) for key, item in zip(node.keys, node.values)}
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    name = call_name(node)
    if name == "Decimal":
        text = ast.literal_eval(node.args[0])
        assert isinstance(text, str), ast.unparse(node)
        return text
    if name == "date":
        return "{:04}-{:02}-{:02}".format(*(ast.literal_eval(arg) for arg in node.args))
    if name == "time":
        return clock(node)
    assert not node.args, ast.unparse(node)
    dropped = DROPPED_OF_MODELS if name == "ModelInfo" else DROPPED
    fields = {k.arg.rstrip("_"): value(k.value) for k in node.keywords if k.arg not in dropped}
    return {key: field for key, field in fields.items() if field is not None}


def assigned(source, name):
    for statement in ast.parse(source).body:
        target = getattr(statement, "target", None)
        if isinstance(target, ast.Name) and target.id == name:
            return value(statement.value)
    raise SystemExit(f"the wheel's data has no `{name}`")


def main():
    wheel_path, data_folder = sys.argv[1:]
    with zipfile.ZipFile(wheel_path) as wheel:

        def text(suffix):
            return wheel.read(next(n for n in wheel.namelist() if n.endswith(suffix))).decode()

        lines = text(".dist-info/METADATA").splitlines()
        version = next(line.split(": ", 1)[1] for line in lines if line.startswith("Version: "))
        folder = pathlib.Path(data_folder)
        (folder / "genai-prices.LICENSE").write_text(text("/licenses/LICENSE"))
        (folder / "genai-prices.version").write_text(
            f"genai-prices {version} (PyPI wheel, MIT)\n"
            f"sha256 of the wheel: {hashlib.sha256(pathlib.Path(wheel_path).read_bytes()).hexdigest()}\n"
        )
        table = {
            "version": f"genai-prices {version}",
            "units": assigned(text("genai_prices/data_units.py"), "unit_data"),
            "providers": assigned(text("genai_prices/data.py"), "providers"),
        }
        json.dump(table, sys.stdout, separators=(",", ":"))


main()
