#!/usr/bin/python3
"""Compares the words of smelt's pre-tokenizers with those of the published expressions.

usage: check_splits.py PATH/TO/split_texts [TEXTS [SEED]]

The expressions are in ../make_splits.py; the Python module `regex` (Debian: python3-regex) runs them. Random texts mix
words, numbers, spaces, marks and characters of all of Unicode, and all of smelt's pre-tokenizers cut each of them.
"""
import json
import os
import random
import subprocess
import sys
import unicodedata

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
try:
    import make_splits
except ImportError:
    sys.exit("check_splits: python3-regex is missing; run tools/setup")

# Of several names for one list of expressions, smelt prints the first one.
OTHER_NAMES = {"dbrx": "llama-bpe"}

WORDS = """the of and to in is I'll we'Ve they'RE it's IT'S don't 'tis o'clock naïve Straße élève señor Größe McDonald
iPhone HTTPServer camelCase XMLHttpRequest snake_case __init__ kebab-case привет МИР Дорога мир 世界 你好 今天天气 日本語
カタカナ ひらがな コンピュータ 한국어 ㄱㄴ नमस्ते हिन्दी ไทย ខ្មែរ العربية عربي עברית ქართული Ქართული ᏣᎳᎩ ἀρχή Ǆungla ǅ
e\u0301te\u0301 Việt ﬁne ªº x² ½cup Ⅷth ٣٤٥ १२३ 3.14 1,000,000 2024 1234567 0x1F #include <b> </b> a+=b; !=
== -> => :: // /* */ \\n $100 €50 100% @user C++ ... !!! ??! …— “quoted” ‘single’ (x) [y] {z} ~/dir ```""".split()
SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\t\t", " \n", "\n ", " \n \n ", "\u00a0", "\u3000",
          "\u2003", "\u2028", "\u0085", "\v", "\f"]
ENDS = ["", "", "'s", "'S", "'ll", "'LL", "'lL", "'re", "'t", "'d", "'M", "'ve", "'", "''", ".", ",", "!\n", "?!\r\n",
        "/", "/\n", "\u0301", "\u20dd", "1", "12", "1234"]


def assigned(first, last):
    """No surrogates, and only what Python has: the libraries behind both sides may know a later version of Unicode."""
    return [chr(c) for c in range(first, last + 1) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]


LOW, ALL = assigned(0, 0x24FF), assigned(0, 0x3FFFF)


def piece(rng):
    kind = rng.randrange(10)
    if kind < 4:
        return rng.choice(WORDS) + rng.choice(ENDS)
    if kind < 6:
        return rng.choice(SPACES) * rng.choice((1, 1, 2, 3))
    if kind == 6:
        return make_splits.random_text(rng)
    characters = LOW if kind < 9 else ALL
    return "".join(rng.choice(characters) for _ in range(rng.randint(1, 6)))


def random_text(rng):
    between = rng.choice(["", " ", " ", "\n"])
    return between.join(piece(rng) for _ in range(rng.randint(1, 12)))


def smelts_words(program, texts):
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run([program], input=lines, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def difference(name, text, lengths):
    """Nothing, or the first word that differs."""
    data, at = text.encode(), 0
    words = make_splits.split(OTHER_NAMES.get(name, name), text)
    if [len(w.encode()) for w in words] == lengths:
        return None
    for word, length in zip(words, lengths):
        if len(word.encode()) != length:
            break
        at += length
    return f"{name}: {text!r}\n  at byte {at}: the expression has {word!r}, smelt {data[at:at + length].decode()!r}"


def main():
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    texts = make_splits.TEXTS + [random_text(rng) for _ in range(count)]
    names, different = set(), []
    for text, words in zip(texts, smelts_words(program, texts), strict=True):
        names |= words.keys()
        different += filter(None, (difference(name, text, lengths) for name, lengths in words.items()))
    print("\n".join(different[:20]))
    print(f"{len(names)} pre-tokenizers, {len(texts)} texts: {len(different)} of {len(names) * len(texts)} differ")
    unused = make_splits.EXPRESSIONS.keys() - names - set(OTHER_NAMES.values())
    if unused:
        print(f"not compared: {', '.join(sorted(unused))}")
    return 1 if different or unused or not names else 0


if __name__ == "__main__":
    sys.exit(main())
