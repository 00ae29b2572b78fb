from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mutate import modules
from mutate.mutations import MODULE, mutations

SOURCE = '''
"""A docstring."""
MOST = 3

class Box:
    """Another."""
    size: int = 2

    def holds(self, one: int, most: int = 7) -> bool:
        """A third."""
        if one < 0:
            raise ValueError(f"{one} is below 0")
        return one <= most and one in self.kept[1:]

def drop(box):
    del box.kept[0]
    box.name = "gone"
'''


def changes(function: str) -> list[str]:
    return [one.change for one in mutations(ast.parse(SOURCE)) if one.function == function]


def test_conditions_bounds_and_statements_of_a_function_are_changed_and_texts_of_errors_are_not() -> None:
    assert changes("Box.holds") == [
        "one < 0 → one <= 0",
        "0 → 1",
        "raise ValueError(f'{one} is below 0') → pass",
        "return one <= most and one in self.kept[1:] → return None",
        "one <= most and one in self.kept[1:] → one <= most or one in self.kept[1:]",
        "one <= most → one < most",
        "one in self.kept[1:] → one not in self.kept[1:]",
        "1: → :",
        "1 → 2",
    ]
    assert changes("drop") == ["del box.kept[0] → pass", "0 → 1", "box.name = 'gone' → pass", "'gone' → 'XXgone'"]


def test_what_is_evaluated_at_import_belongs_to_the_class_or_to_the_module() -> None:
    assert changes(MODULE) == ["3 → 4"]
    assert changes("Box") == ["2 → 3", "7 → 8"], "the default of an argument too"
    assert all(one.owner is None for one in mutations(ast.parse(SOURCE)) if one.function in {MODULE, "Box"})


def test_each_change_is_carried_out_alone_and_compiles() -> None:
    number = len(mutations(ast.parse(SOURCE)))
    texts = set()
    for index in range(number):
        tree = ast.parse(SOURCE)
        mutations(tree)[index].apply()
        compile(tree, "box", "exec")
        texts.add(ast.unparse(tree))
    assert len(texts) == number
    assert ast.unparse(ast.parse(SOURCE)) not in texts


def test_equal_changes_of_one_function_have_numbers() -> None:
    tree = ast.parse("def f(a):\n    g(a < 1)\n    g(a < 1)\n")
    assert [one.change for one in mutations(tree) if "<=" in one.change] == ["a < 1 → a <= 1", "a < 1 → a <= 1 #2"]


@pytest.mark.parametrize("module", modules.MODULES)
def test_every_module_of_the_table_and_its_tests_are_there(module: str) -> None:
    assert modules.source_of(module).is_file()
    assert modules.tests_of(module)


TRIED = """
def larger(a, b):
    return a if a > b else b

def smaller(a, b):
    return a if a < b else b
"""
TESTS = """
from gapless_tried import larger, smaller

def test_larger():
    assert larger(1, 2) == larger(2, 1) == 2

def test_smaller():
    assert smaller(1, 1) == 1
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks with bounds of Linux")
def test_what_the_tests_do_not_notice_survives(tmp_path: Path) -> None:
    (tmp_path / "gapless_tried.py").write_text(TRIED)
    (tmp_path / "test_tried.py").write_text(TESTS)
    program = f"""
import ast, sys
sys.path.insert(0, {str(tmp_path)!r})
from pathlib import Path
from mutate.mutations import mutations
from mutate.session import Subject, run_session, configure_hypothesis
configure_hypothesis()
source = Path({str(tmp_path / "gapless_tried.py")!r})
tree = ast.parse(source.read_text())
tries = mutations(tree)
answers = run_session(Subject("gapless_tried", source, tree), tries, [Path({str(tmp_path / "test_tried.py")!r})])
assert next(answers) == [], "every test passes before"
assert len(next(answers)) == 2, "tests that run the module"
for number, noticed in answers:
    print(noticed, tries[number].function, tries[number].change)
"""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    )
    assert done.stdout.splitlines() == [
        "True larger return a if a > b else b → return None",
        "False larger a > b → a >= b",
        "True smaller return a if a < b else b → return None",
        "False smaller a < b → a <= b",
    ]
