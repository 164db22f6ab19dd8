"""Stand-ins for modules that a release imports and its argument parser does not need.

Importing `vllm` pulls in torch, transformers, ray and compiled extensions. The parser uses them for type
annotations and for facts about the machine only, so that every module that is not installed can be an empty one whose
attributes are empty classes.
"""

import abc
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import types

from pydantic_core import core_schema


class Meta(abc.ABCMeta):
    """A class whose unknown attributes are classes again, and that can be called, indexed and joined by `|`."""

    def __new__(mcs, name, bases, names, **named):
        return super().__new__(mcs, name, bases, names)

    def __init__(cls, name, bases, names, **named):
        super().__init__(name, bases, names)

    def __getattr__(cls, name):
        if name.startswith("__") and name.endswith("__") or name.startswith("_abc"):
            raise AttributeError(name)
        made = stand_in(f"{cls.__name__}.{name}")
        setattr(cls, name, made)
        return made

    def register(cls, *arguments, **named):
        return arguments[0] if arguments else cls

    def __getitem__(cls, item):
        return cls

    def __or__(cls, other):
        return cls

    def __ror__(cls, other):
        return cls

    def __iter__(cls):
        return iter(())

    def __bool__(cls):
        return True

    def __int__(cls):
        return 0

    def __lt__(cls, other):
        return False

    def __ge__(cls, other):
        return True


def _init(self, *arguments, **named):
    self.arguments = arguments


def _call(self, *arguments, **named):
    # A decorator gives back what it is put on.
    if len(arguments) == 1 and not named and callable(arguments[0]):
        if isinstance(arguments[0], types.FunctionType):
            # What a custom operator of torch is asked for next.
            arguments[0].register_fake = lambda function: function
        return arguments[0]
    return stand_in("value")()


def _attribute(self, name):
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)
    return stand_in(name)()


def _new(cls, *arguments, **named):
    if len(arguments) == 1 and not named and isinstance(arguments[0], types.FunctionType):
        return arguments[0]
    return object.__new__(cls)


OPERATORS = (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow and rand or ror xor rxor "
    "lshift rlshift rshift rrshift neg pos invert abs matmul"
).split()


def stand_in(name):
    return Meta(
        name,
        (),
        {f"__{operator}__": lambda self, *other: self for operator in OPERATORS}
        | {
            "__new__": _new,
            "__init__": _init,
            "__call__": _call,
            "__getattr__": _attribute,
            "__getitem__": lambda self, item: self,
            "__iter__": lambda self: iter(()),
            "__enter__": lambda self: self,
            "__exit__": lambda self, *rest: None,
            "__bool__": lambda self: False,
            "__int__": lambda self: 0,
            "__index__": lambda self: 0,
            "__hash__": lambda self: 0,
            "__eq__": lambda self, other: True,
            "__lt__": lambda self, other: False,
            "__gt__": lambda self, other: False,
            "__ge__": lambda self, other: True,
            "__le__": lambda self, other: True,
            "__get_pydantic_core_schema__": classmethod(lambda cls, source, handler: core_schema.any_schema()),
            "__init_subclass__": classmethod(lambda cls, **named: None),
            "__module__": "stubs",
        },
    )


class Stub(types.ModuleType):
    """A module in which every name is there."""

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        made = stand_in(name)
        setattr(self, name, made)
        return made


# A release takes these for a sign of the device that it runs on.
ABSENT = ("libtpu", "torch_xla", "tpu_info", "amdsmi", "intel_extension_for_pytorch", "habana_frameworks", "torch_neuronx", "torch_npu")


RELEASES = ("vllm", "sglang")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes last, so that it answers for what is not installed; `forced` for modules that are and shall not be used."""

    def __init__(self, forced=()):
        self.forced = tuple(forced)
        self.made = []

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in ABSENT:
            return None
        # What Python or an installed package has not got is really not there.
        if top in sys.stdlib_module_names:
            return None
        # Of the release itself only what is compiled.
        if top in RELEASES and not name.startswith("vllm.vllm_flash_attn") and not name.endswith("_C"):
            return None
        if top not in RELEASES and importlib.machinery.PathFinder.find_spec(top) is not None:
            if not any(top == forced for forced in self.forced):
                return None
        return self.stub(name)

    def stub(self, name):
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = Stub(spec.name)
        module.__path__ = []
        module.__version__ = "99.0.0"
        module.__file__ = "stub"
        self.made.append(spec.name)
        return module

    def exec_module(self, module):
        pass


class First(Finder):
    """Comes first, for modules that are installed or that would run code of the machine."""

    def find_spec(self, name, path=None, target=None):
        if any(name == forced or name.startswith(forced + ".") for forced in self.forced):
            return self.stub(name)
        return None


def _version(name, known=importlib.metadata.version):
    try:
        return known(name)
    except importlib.metadata.PackageNotFoundError:
        return "99.0.0"


def install(forced=()):
    importlib.metadata.version = _version
    last = Finder()
    sys.meta_path.insert(0, First(forced))
    sys.meta_path.append(last)
    return last
