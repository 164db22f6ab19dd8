"""Compares what a release makes of command lines (`release.py`) with what vramgate makes of them (`read_argv`).

    compare.py ENGINE VERSION ANSWERS READER

Prints how many lines are equal, and each difference once for each option. Ends with 1 where there is one.
"""

import collections
import json
import math
import subprocess
import sys


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def is_json(text, expected):
    """Whether a value is what the text says as JSON: vramgate keeps the text."""
    try:
        value = json.loads(text)
    except ValueError:
        return False
    if isinstance(expected, str):
        try:
            return value == expected or value == json.loads(expected)
        except ValueError:
            return False
    if isinstance(expected, dict) and "list" in expected:
        return value == expected["list"]
    return value is None and expected is None


def same(expected, got):
    """Whether a value is the same; `None` where it is of a kind that vramgate does not keep."""
    text = got.get("text")
    if not got["set"] and text is None and expected is not None:
        return None  # a default that the table does not name
    if got["set"] and text is not None and is_json(text, expected):
        return True
    if expected is None:
        return text is None
    if isinstance(expected, bool):
        if got["set"]:
            # `type=bool` takes any text but the empty one for true.
            return (bool(text) if got["flag"] is None else got["flag"]) is expected
        return (str(text).lower() == "true") is expected
    if isinstance(expected, str):
        return text == expected
    if "int" in expected:
        wanted = int(expected["int"])
        if got.get("int") is not None:
            # What is beyond 128 bits is kept as the largest integer.
            return int(got["int"]) == wanted or abs(wanted) >= 2**127
        return number(text) == wanted
    if "float" in expected:
        wanted, value = float(expected["float"]), number(text)
        return value is not None and (value == wanted or math.isnan(value) and math.isnan(wanted))
    if expected == {"list": []} and (got.get("unset") or got.get("flag")):
        return True
    if "list" in expected and got["set"]:
        return got["all"] == expected["list"]
    return None


def main():
    engine, version, path, reader = sys.argv[1:]
    program = {"vllm": "vllm", "sglang": "python -m sglang.launch_server"}[engine]
    answers = [json.loads(line) for line in open(path)]
    asked = [
        json.dumps(
            {
                "engine": engine,
                "release": version,
                "argv": answer["argv"],
                "files": answer["files"],
                "names": list(answer["values"] or ()),
            }
        )
        for answer in answers
    ]
    done = subprocess.run([reader], input="\n".join(asked), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"compare.py: {reader}: {done.stderr}")
    results = [json.loads(line) for line in done.stdout.splitlines()]
    equal = refused = another = values = unknown = 0
    wrong = collections.defaultdict(list)
    for answer, result in zip(answers, results, strict=True):
        line = " ".join(json.dumps(word) if " " in word or not word else word for word in answer["argv"])
        if answer["files"]:
            line += " with " + repr(next(iter(answer["files"].values())))
        error = result["error"]
        if (answer["error"] is None) != (error is None):
            key = f"taken by one only: {answer['message'][-160:] or result.get('message', '')[:160]}"
            wrong[key[:60] + key[-100:]].append((line, f"{answer['error']} {answer['message'][-200:]}", f"{error} {result.get('message', '')}"))
            continue
        if error is not None:
            refused += 1
            another += error != answer["error"]
            equal += 1
            continue
        good = True
        for name, expected in answer["values"].items():
            outcome = same(expected, result["values"][name])
            if outcome is None:
                unknown += 1
            else:
                values += 1
            if outcome is False:
                good = False
                wrong[name].append((line, json.dumps(expected), json.dumps(result["values"][name])))
        equal += good
    print(f"{engine} {version}: {len(answers)} lines, {equal} equal ({refused} refused by both, {another} of them for another")
    print(f"reason), {len(answers) - equal} different; {values} values compared, {unknown} not (JSON, defaults left open)")
    for key, cases in sorted(wrong.items(), key=lambda item: -len(item[1])):
        line, expected, got = min(cases, key=lambda case: len(case[0]))
        print(f"\n{len(cases)} x {key}\n  {program} {line}\n  release:  {expected}\n  vramgate: {got}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
