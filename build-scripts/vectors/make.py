"""Regenerates or checks the reference vectors in tests/vectors. See README.md beside this file.

    python build-scripts/vectors/make.py                 regenerate every file
    python build-scripts/vectors/make.py --only NAME     files whose name contains NAME (may be repeated)
    python build-scripts/vectors/make.py --check         recompute, compare with the committed files, and verify them
                                                         by second formulas that use numpy alone
    python build-scripts/vectors/make.py --verify        only the second formulas (needs numpy and mpmath, nothing else)
    python build-scripts/vectors/make.py --list          names and sizes
"""

import argparse
import importlib
import json
import sys

import common

MODULES = ["rotary", "rules", "axes", "layers", "absolute", "bias", "attention", "decoder", "sequences", "sampling"]


def registry(names):
    found = {}
    for name in names:
        for file, function in importlib.import_module(name).FILES.items():
            if file in found:
                raise SystemExit(f"two scripts make {file}")
            found[file] = function
    return found


def compare(new, old, path, problems, tolerance):
    if common.is_tensor(new) and common.is_tensor(old):
        if new["shape"] != old["shape"] or new["dtype"] != old["dtype"]:
            problems.append(f"{path}: shape or type differs")
            return
        for i, (a, b) in enumerate(zip(new["data"], old["data"])):
            if not same(a, b, tolerance):
                problems.append(f"{path}[{i}]: {a} against {b}")
                return
    elif isinstance(new, dict) and isinstance(old, dict):
        if list(new) != list(old):
            problems.append(f"{path}: keys differ")
            return
        for key in new:
            # An error bound depends on the last bits of the processor's float32 arithmetic.
            compare(new[key], old[key], f"{path}.{key}", problems, 1e-3 if key == "source_error" else tolerance)
    elif isinstance(new, list) and isinstance(old, list):
        if len(new) != len(old):
            problems.append(f"{path}: length differs")
            return
        for i, (a, b) in enumerate(zip(new, old)):
            compare(a, b, f"{path}[{i}]", problems, tolerance)
    elif not same(new, old, tolerance):
        problems.append(f"{path}: {new} against {old}")


def same(a, b, tolerance):
    if isinstance(a, bool) or isinstance(b, bool) or isinstance(a, str) or isinstance(b, str):
        return a == b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) <= tolerance * (0.1 + max(abs(a), abs(b)))
    return a == b


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()

    failed = 0
    if args.list:
        for path in sorted(common.VECTORS.glob("*")):
            print(f"{path.stat().st_size:8d}  {path.name}")
        return 0
    if not args.verify:
        for file, function in registry(MODULES).items():
            if args.only and not any(part in file for part in args.only):
                continue
            path = common.VECTORS / file
            document = function()
            if isinstance(document, bytes):
                if args.check:
                    good = path.exists() and path.read_bytes() == document
                    print(f"{'same' if good else 'DIFFERENT'}  {file}")
                    failed += not good
                else:
                    path.write_bytes(document)
                    print(f"{len(document):8d}  {file}")
                continue
            # Through text and back, so that a check compares what a reader of the file sees.
            text = common.render(document) + "\n"
            if args.check:
                problems = []
                if not path.exists():
                    problems.append("not committed")
                else:
                    compare(json.loads(text), json.loads(path.read_text()), file, problems, 2e-6)
                print(f"{'DIFFERENT' if problems else 'same'}  {file}")
                for line in problems[:5]:
                    print(f"    {line}")
                failed += bool(problems)
            else:
                path.write_text(text)
                print(f"{len(text):8d}  {file}")
    if args.check or args.verify:
        import verify

        failed += verify.run(args.only)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
