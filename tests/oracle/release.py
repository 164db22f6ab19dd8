"""Gives command lines to the argument parser of an unpacked release and writes what it makes of them.

    release.py lines ENGINE FOLDER VERSION SEED COUNT WORK > answers.jsonl
    release.py table ENGINE FOLDER VERSION > options.jsonl

ENGINE is `vllm` or `sglang`. FOLDER holds the package of the release; nothing of it is executed but the modules that the parser needs
(`stubs.py`).

`lines`: each line of the output is an object: `argv` (after `vllm` or `python -m sglang.launch_server`), `files` (path to text), `error` (kind, or null),
`message`, and `values` (option to value) where there is no error. First every option once with each of a list of texts,
then COUNT lines made from SEED.

`table`: each line is an option as the parser has it: `side` (`serve` or `api_server`), `names`, `negated`, `arity`,
`choices` (null where all values are taken), `default`, `gone` (whether it is refused wherever it stands) and `json` (null where it is not read as JSON).
"""

import argparse
import contextlib
import dataclasses
import importlib
import io
import json
import os
import random
import sys
import types

import stubs

# Where the server's own options stand; it has moved.
CLI_ARGS = tuple(f"vllm.entrypoints.{part}.cli_args" for part in ("openai", "launchers", "common"))
# argparse of Python 3.12.5 and later keeps `--` behind `=`; earlier ones drop it. The images have 3.12.8.
KEEPS_DASHES = sys.version_info >= (3, 12, 5)


# Modules that stand in for others though they are there: what they do needs an installed torch.
FORCED = {
    "vllm": ["torch", "transformers", "vllm.ir"],
    "sglang": [
        "torch",
        "transformers",
        "sglang.srt.configs",
        "sglang.srt.distributed",
        "sglang.srt.layers",
        "sglang.srt.utils.hf_transformers_patches",
    ],
}


class Found(Exception):
    """The parser that a `main` was about to use."""

    def __init__(self, parser):
        super().__init__()
        self.parser = parser


def parser_class():
    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:
        from vllm.utils import FlexibleArgumentParser
    return FlexibleArgumentParser


def only_subcommand(parser):
    (subparsers,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return subparsers.choices["serve"]


def serve_parser():
    """The parser of the program `vllm` as its `main` builds it, that of `serve`, and what runs after parsing."""
    # Some options are there or not by the words of the process.
    sys.argv = ["vllm", "serve"]
    import vllm.platforms

    # Without a device the defaults of the typed configuration cannot be made.
    with contextlib.suppress(AttributeError):
        vllm.platforms.current_platform.device_type = "cuda"
    flexible = parser_class()
    try:
        import vllm.entrypoints.cli.serve as module
    except ModuleNotFoundError:
        return scripts_parser(flexible)
    parser = flexible(description="vLLM CLI")
    parser.add_argument("-v", "--version", action="version", version="0")
    subparsers = parser.add_subparsers(required=False, dest="subparser")
    (command,) = module.cmd_init()
    command.subparser_init(subparsers).set_defaults(dispatch_function=command.cmd)
    # What would start servers does nothing, so that only the checks before it are left. Whether a file is there is not
    # asked: it depends on the machine.
    for name in ("run_server", "run_server_worker", "run_multi_api_server", "run_dp_supervisor", "setup_server"):
        if hasattr(module, name):
            setattr(module, name, lambda *_, **__: None)
    module.uvloop = types.SimpleNamespace(run=lambda *_, **__: None)
    if hasattr(module, "run_headless"):
        module.run_headless = headless
    for name in CLI_ARGS:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name).validate_chat_template = lambda *_, **__: None
    for name in ("vllm.entrypoints.grpc_server", "vllm.entrypoints.launchers.grpc_server"):
        sys.modules[name] = types.SimpleNamespace(serve_grpc=lambda *_, **__: None)

    def after(arguments):
        command.validate(arguments)
        command.cmd(arguments)

    return parser, subparsers.choices["serve"], after


def headless(arguments):
    """The first check of each release's `run_headless`; what follows builds the engine."""
    if getattr(arguments, "api_server_count", 0) > 1:
        raise ValueError("api_server_count can't be set in headless mode")


def scripts_parser(flexible):
    """The same for releases up to 0.6.6, whose program is `vllm/scripts.py`."""
    import vllm.scripts as module

    def found(parser, *_, **__):
        raise Found(parser)

    known = flexible.parse_args
    flexible.parse_args = found
    try:
        module.main()
    except Found as program:
        parser = program.parser
    flexible.parse_args = known
    module.uvloop = types.SimpleNamespace(run=lambda *_, **__: None)
    module.run_server = lambda *_, **__: None

    importlib.import_module("vllm.entrypoints.openai.cli_args").validate_chat_template = lambda *_, **__: None

    def after(arguments):
        module.validate_parsed_serve_args(arguments)
        arguments.dispatch_function(arguments)

    return parser, only_subcommand(parser), after


def module_parser():
    """The parser of `python -m vllm.entrypoints.openai.api_server`."""
    sys.argv = ["api_server.py"]
    flexible = parser_class()
    for name in CLI_ARGS:
        with contextlib.suppress(ModuleNotFoundError):
            module = importlib.import_module(name)
            with contextlib.suppress(TypeError):
                return module.make_arg_parser(flexible(description="server"))
            return module.make_arg_parser()
    raise SystemExit("release.py: the module of the server's parser was not found")


def sglang_parser():
    """The parser of `python -m sglang.launch_server`."""
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(prog="sglang serve")
    ServerArgs.add_cli_args(parser)
    return parser, parser, lambda _: None


def kind_of(message):
    for text, kind in [
        ("ambiguous option", "ambiguous-option"),
        ("unrecognized arguments", "unrecognized-arguments"),
        ("ignored explicit argument", "invalid-value"),
        ("invalid choice", "invalid-value"),
        ("expected", "missing-value"),
        ("invalid", "invalid-value"),
        ("model", "missing-model"),
    ]:
        if text in message:
            return kind
    return "other"


def plain(value):
    """A value as JSON; what is none of JSON's own types as `{"other": …}`."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return {"int": str(value)}
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return {"list": list(value)}
    return {"other": type(value).__name__}


def parse(parser, serve, after, argv):
    errors = io.StringIO()
    sys.argv = ["vllm", *argv]
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            arguments = parser.parse_args()
    except SystemExit as end:
        text = errors.getvalue().strip().splitlines()
        last = text[-1] if text else ""
        return ("help", "") if end.code == 0 else (kind_of(last), last), None
    except Exception as error:  # the release crashes, which ends the process as well
        return (kind_of(str(error)), f"{type(error).__name__}: {error}"), None
    if parser is not serve and not hasattr(arguments, "dispatch_function"):
        return ("no-subcommand", ""), None
    values = {}
    for action in serve._actions:
        # The first one is the name, the others are aliases and negations.
        names = [name for name in action.option_strings if name.startswith("--") and not name.startswith("--no-")]
        if names and hasattr(arguments, action.dest):
            values[names[0]] = plain(getattr(arguments, action.dest))
    if getattr(arguments, "model_tag", None) is not None:
        values["--model"] = arguments.model_tag
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            after(arguments)
    except SystemExit as end:
        return ("after", f"SystemExit: {end.code}"), None
    except Exception as error:
        return ("after", f"{type(error).__name__}: {error}"), None
    return (None, ""), values


def arity_of(action):
    """The arity as `options.tsv` names it, JSON aside."""
    if isinstance(action, argparse.BooleanOptionalAction) or isinstance(action, argparse._HelpAction):
        return "flag"
    if action.nargs is None:
        return "value"
    return {0: "flag", "?": "optional-value", "+": "list", "*": "optional-list"}.get(action.nargs, str(action.nargs))


# What tells the kinds of JSON from each other.
SAMPLES = ("3", "[]", "{}", "{'a': 1}", "a=1", "x")


def class_of(function, depth=4):
    """The configuration that a function which reads values makes: it has the function as a method, or stands in a default
    or in the closure."""
    if isinstance(function, type):
        return function if dataclasses.is_dataclass(function) else None
    owner, _, method = getattr(function, "__qualname__", "").partition(".")
    if method and "." not in method:
        return class_of(getattr(sys.modules.get(function.__module__), owner, None), 0)
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    for inner in (*(getattr(function, "__defaults__", None) or ()), *cells):
        found = class_of(inner, depth - 1) if depth else None
        if found:
            return found
    return None


def takes(function, text):
    try:
        function(text)
    except Exception:
        return False
    return True


def json_of(action):
    """Which of the samples an option takes that is read by a function, and the keys of its object, where others are
    refused."""
    if action.type in (None, int, float, str) or not takes(action.type, "{}"):
        return None
    taken = [text for text in SAMPLES if takes(action.type, text)]
    made = class_of(action.type)
    keys = None
    if made and not takes(action.type, '{"no such key": 1}'):
        keys = sorted(field.name for field in dataclasses.fields(made) if field.init)
    optional = takes(action.type, "None") and action.type("None") is None
    return {"taken": taken, "optional": optional, "keys": keys}


def is_gone(action, parser):
    """Whether a flag is refused wherever it stands."""
    if action.nargs != 0 or isinstance(action, (argparse._HelpAction, argparse._VersionAction)):
        return False
    return not takes(lambda name: action(parser, argparse.Namespace(), None, name), action.option_strings[0])


def name_of(choice):
    return {None: "null", "null": '"null"'}.get(choice, str(choice))


def rows(side, parser):
    for action in parser._actions:
        names = [name for name in action.option_strings if name.startswith("-")]
        if not names:
            continue
        negates = getattr(action, "negative_option_strings", None)
        negated = [name for name in names if name.startswith("--no-") and "--" + name[5:] in names]
        if negates is not None:
            negated = list(negates)
        default = action.default
        if not isinstance(default, (str, int, float, bool, list, type(None))):
            default = f"({type(default).__name__})"
        yield {
            "side": side,
            "names": [name for name in names if name not in negated],
            "negated": negated,
            "arity": arity_of(action),
            "action": type(action).__name__,
            "type": str(getattr(action.type, "__name__", action.type)),
            "json": json_of(action),
            "gone": is_gone(action, parser),
            "choices": None if action.choices is None else [name_of(choice) for choice in action.choices],
            "default": default if default != argparse.SUPPRESS else None,
        }


class Lines:
    """Command lines from a seed: most are right, some are what people write by mistake."""

    INTS = ["1", "2", "4", "8", "16", "4096", "0", "-1", "1_000", " 3", "+2", "007", "1e3", "1.0", "two", ""]
    HUMAN = ["4k", "8K", "1.5k", "1M", "2.5K", "10G", "-1", "auto"]
    FLOATS = ["0.9", ".5", "1", "0.45", "1e-1", "nan", "-0.5", "1.5", "0,5", "90%", "", "1_0.5"]
    TEXTS = ["auto", "m/n", "a b", "None", "", "x=y", "--", "-1", "é", "{}", "fp8"]
    JSON = ['{"a": 1}', "{}", "[]", "null", "3", "{'a': 1}", '{"method": "ngram"}', '{"level": 3}', '"x"', ""]
    MODELS = ["org/model", "/models/m", "m"]

    def __init__(self, engine, serve, seed, work):
        self.engine = engine
        # The shortest line that starts.
        self.least = ["serve", "m"] if engine == "vllm" else ["--model-path", "m"]
        self.random = random.Random(seed)
        self.work = work
        self.count = 0
        self.actions = [
            action
            for action in serve._actions
            if action.option_strings and not isinstance(action, argparse._HelpAction) and "config" != action.dest
        ]
        important = ("gpu_memory", "mem_fraction", "parallel", "tp_size", "context", "max_model", "max_num", "dtype", "quantization", "eager", "swap", "block")
        self.chief = [a for a in self.actions if any(part in a.dest for part in important)]

    def value(self, action):
        pick = self.random.choice
        choices = [str(choice) for choice in action.choices or ()]
        if choices and self.random.random() < 0.9:
            return pick(choices)
        # Types are functions made by functions: what they convert to stands in their closure.
        name = getattr(action.type, "__name__", str(action.type))
        for cell in getattr(action.type, "__closure__", None) or ():
            name += " " + getattr(cell.cell_contents, "__name__", "")
        pools = []
        if action.type is int or "int" in name:
            pools = [self.INTS, self.HUMAN] if "human" in name else [self.INTS]
        elif action.type is float or "float" in name:
            pools = [self.FLOATS]
        elif action.type is str or action.type is None:
            pools = [self.TEXTS]
        else:
            pools = [self.JSON, self.TEXTS]
        if self.random.random() < 0.05:
            pools = [self.INTS, self.FLOATS, self.TEXTS, self.JSON, self.HUMAN]
        pool = pick(pools)
        # The first ones are right: most lines should be taken.
        return pick(pool[: max(3, len(pool) // 2)] if self.random.random() < 0.8 else pool)

    def spelling(self, action):
        name = self.random.choice(action.option_strings)
        chance = self.random.random()
        if chance < 0.25:
            return name[:2] + name[2:].replace("-", "_")
        if chance < 0.35 and name.startswith("--") and len(name) > 8:
            return name[: self.random.randint(6, len(name))]
        if chance < 0.37:
            return name + self.random.choice(["x", "-", "."])
        return name

    def option(self):
        action = self.random.choice(self.chief if self.random.random() < 0.6 else self.actions)
        name = self.spelling(action)
        chance = self.random.random()
        if action.nargs == 0:
            return [name] if chance < 0.95 else [f"{name}=true"]
        if chance < 0.03:
            return [name]
        if action.nargs in ("+", "*"):
            return [name, *(self.value(action) for _ in range(self.random.randint(0 if action.nargs == "*" else 1, 3)))]
        value = self.value(action)
        joined = chance < 0.4 and (value != "--" or KEEPS_DASHES)
        return [f"{name}={value}"] if joined else [name, value]

    def dotted(self):
        name = self.random.choice(
            ["--compilation-config", "--speculative-config", "--override-generation-config", "-O", "--hf_overrides"]
        )
        key = self.random.choice(["level", "a", "a.b", "a_b", "mode"])
        value = self.random.choice(["3", "x", "true", '{"c": 1}', "1.5"])
        return [f"{name}.{key}={value}"] if self.random.random() < 0.5 else [f"{name}.{key}", value]

    def config(self):
        lines = []
        for _ in range(self.random.randint(0, 4)):
            action = self.random.choice(self.chief)
            name = action.option_strings[-1].lstrip("-")
            if self.random.random() < 0.4:
                name = name.replace("-", "_")
            if action.nargs == 0:
                value = self.random.choice(["true", "false", "yes", "1"])
            else:
                value = json.dumps(self.value(action)) if self.random.random() < 0.3 else self.value(action).strip() or '""'
            lines.append(f"{name}: {value}")
        if self.random.random() < 0.3:
            lines.append("model: from/file")
        path = os.path.join(self.work, f"config-{self.count}.yaml")
        text = "\n".join(lines) + "\n"
        with open(path, "w") as file:
            file.write(text)
        return path, text

    def each(self):
        """Every option with every text of each list."""
        texts = list(dict.fromkeys([*self.INTS, *self.HUMAN, *self.FLOATS, *self.TEXTS, *self.JSON]))
        for action in self.actions:
            for name in action.option_strings:
                yield [*self.least, name], {}
            if action.nargs != 0:
                choices = [str(choice) for choice in action.choices or ()]
                for text in dict.fromkeys([*choices, *texts]):
                    if text != "--" or KEEPS_DASHES:
                        yield [*self.least, f"{action.option_strings[0]}={text}"], {}

    def line(self):
        self.count += 1
        parts = []
        files = {}
        for _ in range(self.random.randint(0, 6)):
            parts.append(self.option())
        chance = self.random.random()
        if self.engine == "sglang":
            if chance < 0.9:
                parts.append(["--model-path", self.random.choice(self.MODELS)])
            self.random.shuffle(parts)
            return [word for part in parts for word in part], files
        if chance < 0.08:
            parts.append(self.dotted())
        elif chance < 0.12:
            parts.append([self.random.choice(["-O3", "-O", "-O=2", "-O 1", "-O{}", "-tp2", "-tp=2", "-q", "-h=x"])])
        elif chance < 0.2:
            path, text = self.config()
            files[path] = text
            parts.append(["--config", path])
        self.random.shuffle(parts)
        words = [word for part in parts for word in part]
        chance = self.random.random()
        if chance < 0.85:
            words.insert(0, self.random.choice(self.MODELS))
        elif chance < 0.92:
            words.insert(self.random.randint(0, len(words)), self.random.choice(self.MODELS))
        elif chance < 0.96:
            words.extend(["--model", self.random.choice(self.MODELS)])
        if self.random.random() < 0.02:
            words.insert(self.random.randint(0, len(words)), "--")
        return ["serve", *words], files


def main():
    mode, engine, folder, _version, *rest = sys.argv[1:]
    sys.path.insert(0, folder)
    os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
    made = stubs.install(FORCED[engine])
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    parser, serve, after = serve_parser() if engine == "vllm" else sglang_parser()
    print(f"modules that stand in for others: {len({name.partition('.')[0] for name in made.made})}", file=sys.stderr)
    if mode == "table":
        sides = {"serve": serve} | ({"api_server": module_parser()} if engine == "vllm" else {})
        for side, options in sides.items():
            for row in rows(side, options):
                output.write(json.dumps(row, default=str) + "\n")
    else:
        seed, count, work = rest
        lines = Lines(engine, serve, int(seed), work)
        for argv, files in [*lines.each(), *(lines.line() for _ in range(int(count)))]:
            (error, message), values = parse(parser, serve, after, argv)
            answer = {"argv": argv, "files": files, "error": error, "message": message, "values": values}
            output.write(json.dumps(answer) + "\n")
    output.close()


if __name__ == "__main__":
    main()
