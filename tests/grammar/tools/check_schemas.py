#!/usr/bin/env python3
"""Random JSON schemas: every text that our grammar of one allows must parse, and satisfy an independent validator.

  check_schemas.py PROGRAM [COUNT] [SEED] [tools]      PROGRAM is schema_samples

With `tools` the schemas are those of tools, and what is judged are the arguments of calls in the formats of all families.
"""

import json
import random
import subprocess
import sys

import jsonschema

PATTERNS = ["^[a-z]+$", "^\\d{3}-\\d{2}$", "a|b", "^(x|yz)*$", "[^\"\\\\]", "^\\w{2,5}$", "\\s", "^.{1,4}$", "\\\\"]
NAMES = ["a", "ab", "name", "größe", "x y", "\"q\"", "items", "b1"]


def number(r, integer):
    s = {"type": "integer" if integer else "number"}
    low = r.randint(-1000, 1000) if r.random() < 0.7 else r.randint(-100, 100) / 8
    if r.random() < 0.5:
        s[r.choice(["minimum", "exclusiveMinimum"])] = low
    if r.random() < 0.5:
        s[r.choice(["maximum", "exclusiveMaximum"])] = low + r.randint(2, 500)
    if integer and r.random() < 0.2:
        s["multipleOf"] = r.choice([2, 3, 5, 10])
    return s


def string(r):
    s = {"type": "string"}
    kind = r.random()
    if kind < 0.3:
        s["pattern"] = r.choice(PATTERNS)
    elif kind < 0.5:
        s["format"] = r.choice(["date", "time", "date-time", "email", "ipv4", "ipv6", "uuid", "uri", "hostname", "unknown"])
    elif kind < 0.8:
        s["minLength"] = r.randint(0, 5)
        if r.random() < 0.5:
            s["maxLength"] = s["minLength"] + r.randint(0, 6)
    return s


def obj(r, depth):
    s = {"type": "object"}
    if r.random() < 0.8:
        names = r.sample(NAMES, r.randint(0, 4))
        s["properties"] = {n: schema(r, depth + 1) for n in names}
        s["required"] = [n for n in names if r.random() < 0.5]
        if r.random() < 0.1:
            s["required"].append("other")
    if r.random() < 0.3:
        s["additionalProperties"] = r.choice([True, False, {"type": "integer"}, {"type": "string"}])
    if r.random() < 0.2:
        s["minProperties"] = r.randint(0, 1)
    if r.random() < 0.2:
        s["maxProperties"] = r.randint(len(s.get("required", [])), 6)
    if s.get("additionalProperties") is False and "other" in s.get("required", []):
        s["required"].remove("other")
    return s


def array(r, depth):
    s = {"type": "array"}
    if r.random() < 0.7:
        s["items"] = schema(r, depth + 1)
    if r.random() < 0.2:
        s["prefixItems"] = [schema(r, depth + 1) for _ in range(r.randint(1, 3))]
    if r.random() < 0.4:
        s["minItems"] = r.randint(0, 3)
    if r.random() < 0.4:
        s["maxItems"] = s.get("minItems", 0) + r.randint(0, 3)
    return s


def schema(r, depth=0):
    if depth > 3:
        return r.choice([{"type": "boolean"}, {"type": "null"}, {"type": "integer"}])
    kind = r.random()
    if kind < 0.12:
        return {"enum": r.sample([1, -2.5, "x", "ä\n", None, True, [1, "a"], {"k": {}}], r.randint(1, 4))}
    if kind < 0.16:
        return {"const": r.choice(["c", 7, None, {"a": [1]}])}
    if kind < 0.26:
        return {r.choice(["anyOf", "anyOf", "oneOf"]): [{"type": "null"}, array(r, depth + 1), string(r)]}
    if kind < 0.32:
        return {"allOf": [{"type": "object", "properties": {"p": schema(r, depth + 1)}, "required": ["p"]},
                          {"properties": {"q": schema(r, depth + 1)}}]}
    if kind < 0.36:
        return {"type": r.sample(["string", "integer", "null", "boolean", "number"], 2)}
    if kind < 0.39:
        return {"type": "object", "patternProperties": {r.choice(PATTERNS[:4]): schema(r, depth + 1)},
                "additionalProperties": False}
    if kind < 0.42 and depth == 0:
        return {"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "properties": {
            "v": schema(r, 3), "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/t"}]}}, "required": ["next"]}}}
    return r.choice([lambda: number(r, True), lambda: number(r, False), lambda: string(r), lambda: obj(r, depth),
                     lambda: obj(r, depth), lambda: array(r, depth)])()


def parameters(r):
    names = r.sample(["a", "ab", "name", "größe", "items", "b1"], r.randint(0, 4))
    s = {"type": "object", "properties": {n: schema(r, 1) for n in names}, "required": [n for n in names if r.random() < 0.5]}
    if r.random() < 0.2:
        s["additionalProperties"] = {"type": "integer"}
    return s


def main():
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    r = random.Random(seed)
    as_tools = sys.argv[4:] == ["tools"]
    schemas = [parameters(r) if as_tools else schema(r) for _ in range(count)]
    lines = "".join(json.dumps(s, ensure_ascii=r.random() < 0.5) + "\n" for s in schemas)
    answers = subprocess.run([program] + sys.argv[4:], input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout.splitlines()
    assert len(answers) == count, f"{len(answers)} answers for {count} schemas"
    refused = texts = wrong = 0
    for s, answer in zip(schemas, map(json.loads, answers)):
        if "error" in answer:
            refused += 1
            print(f"refused: {json.dumps(s)}: {answer['error']}")
            continue
        for text in answer["texts"]:
            texts += 1
            try:
                jsonschema.Draft202012Validator(s).validate(json.loads(text))
            except (ValueError, jsonschema.ValidationError) as e:
                wrong += 1
                print(f"wrong: {json.dumps(s)}\n  {text}\n  {str(e).splitlines()[0]}")
    print(f"{count} schemas (seed {seed}), {refused} refused, {texts} texts, {wrong} wrong")
    return 1 if wrong or refused > count // 20 or texts < 3 * count else 0


if __name__ == "__main__":
    sys.exit(main())
