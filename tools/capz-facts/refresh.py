#!/usr/bin/env python3
"""Prints, for each CRD file given, the facts of its schema that our own CRD has to share.

Usage: refresh.py DIRECTORY CRD.yaml...

For each file a table DIRECTORY/<plural>.tsv is written: a comment that says how it was made, a line
of headings, and a line for each node of the schema, in the order of their paths. The columns are
path, type, format, default, enum, required, list-type and other. A cell is empty when the schema
says nothing; default and other are JSON, an enum is its values with commas between. In a path,
`[]` stands for the items of a list and `{}` for the values of a map. Rows of the form `@name`, at
the top, are facts about the kind and not about its schema.

Only facts are kept: descriptions are left out, so no text of the source gets into our repository.

Source: https://github.com/kubernetes-sigs/cluster-api-provider-azure, files
config/crd/bases/infrastructure.cluster.x-k8s.io_{azuremachinepools,azuremachinepoolmachines}.yaml.
Needs PyYAML.
"""

import json
import pathlib
import sys

import yaml

HEADINGS = ["path", "type", "format", "default", "enum", "required", "list-type", "other"]

# What has a column of its own, or rows of its own, or is no fact.
ELSEWHERE = {
    "type", "format", "default", "enum", "required", "x-kubernetes-list-type",
    "description", "properties", "items", "additionalProperties",
}


def compact(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def row(path, schema, required):
    other = {word: value for word, value in schema.items() if word not in ELSEWHERE}
    return [
        path,
        schema.get("type", ""),
        schema.get("format", ""),
        compact(schema["default"]) if "default" in schema else "",
        ",".join(str(value) for value in schema.get("enum", [])),
        "required" if required else "",
        schema.get("x-kubernetes-list-type", ""),
        compact(other) if other else "",
    ]


def rows(path, schema, required=False):
    yield row(path or ".", schema, required)
    needed = schema.get("required", [])
    for name in sorted(schema.get("properties", {})):
        below = schema["properties"][name]
        yield from rows(f"{path}.{name}", below, name in needed)
    for word, sign in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(word), dict):
            yield from rows(path + sign, schema[word])


def kind_rows(crd, version):
    names = crd["spec"]["names"]
    facts = {
        "group": crd["spec"]["group"],
        "scope": crd["spec"]["scope"],
        "names": names,
        "version": {word: version[word] for word in ("name", "served", "storage")},
        "subresources": version.get("subresources", {}),
    }
    for name in sorted(facts):
        yield [f"@{name}", "", "", "", "", "", "", compact(facts[name])]
    for index, column in enumerate(version.get("additionalPrinterColumns", [])):
        column = {word: value for word, value in column.items() if word != "description"}
        yield [f"@column.{index}", "", "", "", "", "", "", compact(column)]


def table(crd):
    (version,) = crd["spec"]["versions"]
    yield HEADINGS
    yield from kind_rows(crd, version)
    yield from rows("", version["schema"]["openAPIV3Schema"])


def main(directory, *files):
    for file in files:
        crd = yaml.safe_load(pathlib.Path(file).read_text(encoding="utf-8"))
        lines = ["# Made by tools/capz-facts/refresh.py from the CRD of CAPZ; see there."]
        lines += ["\t".join(cells) for cells in table(crd)]
        target = pathlib.Path(directory) / f"{crd['spec']['names']['plural']}.tsv"
        target.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{target}: {len(lines) - 2} facts")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
