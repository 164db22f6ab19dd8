"""Checks a table of options (`options.tsv`) against the options that releases' parsers have (`release.py table`).

    table.py TABLE KEYS FOLDER [--update]       KEYS is - where the engine has none

FOLDER holds `VERSION.options.jsonl` for each release to check. Names, aliases, negated spellings, arity, choices, kind of
JSON and entrypoints must be equal, and defaults where the table names one. KEYS (`keys.tsv`) holds the keys that the JSON
of an option may have. `--update` writes choices, kinds of JSON and keys into the tables instead, a line for each range of
releases in which nothing about them changed.

Ends with 1 where there is a difference.
"""

import json
import pathlib
import sys

COLUMNS = "name aliases negated arity type default choices only since until".split()
# What the parser of `options.tsv` makes of these is `flag` and `value`.
SAME_ARITY = {"flag-negatable": "flag", "json": "value"}
def sides_of(only, present):
    """The entrypoints of a line; `argv` says that a file may not hold the option."""
    return present if only in ("", "argv") else [only]


# Which of the samples of `release.py` each kind of JSON takes.
KINDS = {
    ("3", "[]", "{}"): "json",
    ("3", "[]", "{}", "a=1", "x"): "json-or-str",
    ("{}",): "object",
    ("{}", "a=1"): "object-or-key-values",
    # An integer is a level there, and the text is Python's until 0.8.5.
    ("3", "{}"): "object",
    ("3", "{}", "{'a': 1}"): "object",
}
# Releases that are on no index any more.
NOT_TO_BE_HAD = {"0.21.0"}
KEYS_HEAD = """\
# Keys that the JSON of an option may have, where the release refuses others.
# Columns: option, key, first and last release (empty: still there). An option without a line for a release takes any key.
"""


class Table:
    def __init__(self, path):
        self.head = []
        self.rows = []
        for line in path.read_text().splitlines():
            if line.startswith(("#", "versions\t")):
                self.head.append(line)
                if line.startswith("versions"):
                    self.versions = line.split("\t")[1].split(",")
            else:
                self.rows.append(dict(zip(COLUMNS, line.split("\t"), strict=True)))

    def at(self, version):
        """The lines that hold in a release, by name (the entrypoint with it: an option may have a line for each)."""
        at = self.versions.index(version)
        for row in self.rows:
            last = self.versions.index(row["until"]) if row["until"] else at
            if self.versions.index(row["since"]) <= at <= last:
                yield row

    def text(self):
        lines = ["\t".join(row[column] for column in COLUMNS) for row in self.rows]
        return "\n".join([*self.head, *lines]) + "\n"


def listed(text):
    """The parts of a column: separated by `|` where one of them holds a comma, else by commas."""
    return text.split("|" if "|" in text else ",") if text else []


def default_of(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return json.dumps(value, separators=(",", ":"))
    return str(value)


def is_default(written, value):
    found = default_of(value)
    if written == found:
        return True
    try:
        return float(written) == float(found)
    except ValueError:
        return False


def choices_of(option):
    choices = option["choices"]
    if choices is None:
        return ""
    return ("|" if any("," in choice for choice in choices) else ",").join(sorted(choices))


def kind_of(option):
    """The column `type` of an option that takes JSON or a boolean or is gone; `None` for others."""
    if option["gone"]:
        return "gone"
    if option["action"] == "StoreBoolean":
        return "boolean"
    if option["json"] is None:
        return None
    taken = tuple(option["json"]["taken"])
    if set(taken) >= {"{'a': 1}", "x"}:
        return None  # plain text
    if taken not in KINDS:
        raise SystemExit(f"table.py: {option['names'][0]}: takes {taken}, which is no known kind")
    return ("optional-" if option["json"]["optional"] else "") + KINDS[taken]


def same_choices(written, found):
    return sorted(listed(written)) == listed(found)


def read(path):
    """By side, the options of a release by each of their long names."""
    sides = {}
    for line in path.read_text().splitlines():
        option = json.loads(line)
        for name in option["names"]:
            sides.setdefault(option["side"], {}).setdefault(name, option)
    return sides


def differences(row, option, side):
    """What is not as the release has it, choices aside."""
    names = {row["name"], *listed(row["aliases"])}
    if names != set(option["names"]):
        yield f"names {sorted(option['names'])}, not {sorted(names)}"
    if set(listed(row["negated"])) != set(option["negated"]):
        yield f"negated {option['negated']}, not {row['negated']}"
    if SAME_ARITY.get(row["arity"], row["arity"]) != option["arity"]:
        yield f"arity {option['arity']}, not {row['arity']}"
    kind = kind_of(option)
    if kind is not None and row["type"] != kind:
        yield f"type {kind}, not {row['type']}"
    if row["default"] and option["action"] != "_HelpAction" and not is_default(row["default"], option["default"]):
        yield f"default {default_of(option['default'])}, not {row['default']}"


def check(table, version, sides, quiet):
    """Prints what differs in a release. Gives how much that is, and what is to be written, by name and entrypoint."""
    texts = []
    facts = {}
    for side, options in sides.items():
        seen = set()
        for row in table.at(version):
            if side not in sides_of(row["only"], list(sides)):
                continue
            option = options.get(row["name"])
            if option is None:
                texts.append(f"{side}: {row['name']} is not there")
                continue
            seen.update(option["names"])
            texts.extend(f"{side}: {row['name']}: {text}" for text in differences(row, option, side))
            fact = {
                "choices": choices_of(option),
                "type": kind_of(option),
                "keys": option["json"] and option["json"]["keys"],
            }
            if not same_choices(row["choices"], fact["choices"]):
                texts.append(f"{side}: {row['name']}: choices {fact['choices'] or 'none'}, not {row['choices'] or 'none'}")
            if facts.setdefault((row["name"], row["only"]), fact) != fact:
                texts.append(f"{row['name']}: the entrypoints differ: {fact}")
        missing = (name for name in sorted(options.keys() - seen) if name.startswith("--"))
        texts.extend(f"{side}: {name} is missing in the table" for name in missing)
    if not quiet:
        for text in texts:
            print(f"{version} {text}")
    return len(texts), facts


def join(choices):
    return ("|" if any("," in choice for choice in choices) else ",").join(choices)


def between(facts, versions, at, key):
    """The choices in a release that cannot be had: all that its neighbours have; none where one of them takes anything."""
    neighbours = [facts.get(versions[next_to], {}).get(key, {}).get("choices") for next_to in (at - 1, at + 1)]
    return join(sorted({choice for text in neighbours for choice in listed(text)})) if all(neighbours) else ""


def update(table, facts):
    """Puts choices and kinds of JSON of each release into the lines, which are split where they change."""
    rows = []
    for row in table.rows:
        since = table.versions.index(row["since"])
        until = table.versions.index(row["until"]) if row["until"] else len(table.versions) - 1
        phases = []
        for at in range(since, until + 1):
            version = table.versions[at]
            key = (row["name"], row["only"])
            new = {"choices": row["choices"], "type": row["type"]}
            if key in facts.get(version, {}):
                found = facts[version][key]
                if not same_choices(new["choices"], found["choices"]):
                    new["choices"] = found["choices"]
                new["type"] = found["type"] or new["type"]
            elif version not in facts and since < at < until:
                new["choices"] = new["choices"] or between(facts, table.versions, at, key)
                new["type"] = phases[-1][0]["type"]
            if phases and phases[-1][0] == new:
                phases[-1][2] = at
            else:
                phases.append([new, at, at])
        for new, first, last in phases:
            open_end = last == until and not row["until"]
            span = {"since": table.versions[first], "until": "" if open_end else table.versions[last]}
            rows.append(row | new | span)
    table.rows = rows


def keys_text(table, facts):
    """The table of keys. A release that cannot be had is given those of the one before it."""
    present = {}
    for at, version in enumerate(table.versions):
        if version not in facts and at:
            known = {pair: places for pair, places in present.items() if at - 1 in places}
            for places in known.values():
                places.append(at)
        for (name, _), fact in facts.get(version, {}).items():
            for key in fact["keys"] or ():
                places = present.setdefault((name, key), [])
                if at not in places:
                    places.append(at)
    lines = []
    for (name, key), places in sorted(present.items()):
        first = places[0]
        for place, following in zip(places, [*places[1:], None], strict=True):
            if following != place + 1:
                last = "" if place == len(table.versions) - 1 else table.versions[place]
                lines.append(f"{name}\t{key}\t{table.versions[first]}\t{last}\n")
                first = following
    return KEYS_HEAD + "".join(lines)


def main():
    path, keys_path, folder, *flags = sys.argv[1:]
    path = pathlib.Path(path)
    keys_path = None if keys_path == "-" else pathlib.Path(keys_path)
    table = Table(path)
    told = 0
    facts = {}
    for version in table.versions:
        file = pathlib.Path(folder) / f"{version}.options.jsonl"
        if not file.exists():
            continue
        count, facts[version] = check(table, version, read(file), quiet=bool(flags))
        told += count
    if flags:
        update(table, facts)
        path.write_text(table.text())
        if keys_path:
            keys_path.write_text(keys_text(table, facts))
        return 0
    written = set(keys_path.read_text().splitlines()) if keys_path else set()
    if keys_path and len(facts) == len(table.versions) - len(NOT_TO_BE_HAD & set(table.versions)):
        for line in sorted(set(keys_text(table, facts).splitlines()) ^ written):
            told += 1
            print(f"{keys_path}: {'not there' if line in written else 'missing'}: {line}")
    print(f"{path}: {len(facts)} of {len(table.versions)} releases checked, {told} differences")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
