#!/usr/bin/python3
"""Writes tests/data/pretokenizer_splits.json: texts and the words that published expressions cut them into.

usage: make_splits.py [RANDOM_TEXTS [SEED]] > tests/data/pretokenizer_splits.json

The expressions are those of the models' own tokenizer files, run by the Python module `regex`
(Debian: python3-regex), which shares no code with smelt.
"""
import json
import random
import sys

import regex

APOSTROPHE = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
GPT4 = (APOSTROPHE + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CASED = (
    r"A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF\u0370-\u0373\u0376"
    r"\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F"
    r"\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77"
    r"\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D"
    r"\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4"
    r"\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139"
    r"\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D"
    r"\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A"
    r"\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2"
    r"\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943")
EAST_ASIAN = r"[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+"

UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
CASED_WORD = r"[^\r\n\p{L}\p{N}]?[UPPER]*[LOWER]+END|[^\r\n\p{L}\p{N}]?[UPPER]+[LOWER]*END"


def cased_word(end, without=""):
    word = CASED_WORD.replace("UPPER", UPPER).replace("LOWER", LOWER).replace("END", end)
    return word.replace(r"\p{M}]", r"\p{M}&&[^" + without + "]]") if without else word


GPT4O = (r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")

EXPRESSIONS = {
    "glm4": [GPT4.replace("DIGITS", "3")],
    "llama-bpe": [GPT4.replace("DIGITS", "3")],
    "qwen2": [GPT4.replace("DIGITS", "1").replace("{1,1}", "")],
    "gpt-2": [GPT2],
    "starcoder": [r"\p{N}", GPT2],
    "deepseek-llm": [r"[\r\n]", r"\s?[" + CASED + r"]+",
                     r"\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+", r"\s+$", EAST_ASIAN,
                     r"\p{N}+"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN, r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", r"[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
                    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
                    r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""],
    "qwen35": [APOSTROPHE + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
               r"|\s+(?!\S)|\s+"],
    "seed-coder": [APOSTROPHE + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+"
                   r"|\s+(?!\S)|\s+"],
    "gpt-4o": [cased_word(APOSTROPHE + "?") + GPT4O],
    "tekken": [cased_word("") + GPT4O.replace("{1,3}", "")],
    "kimi-k2": [r"[\p{Han}]+|" + cased_word(APOSTROPHE + "?", r"\p{Han}") + GPT4O.replace("\\n/]", "\\n]")],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
}

TEXTS = [
    "", " ", "  ", "\n", " \n", "\n ", "\r\n\r\n  x", "a", " a", "  a", "   a  ", "Hello, world!", "tabs\tand\t\tmore",
    "I'll we'Ve they'RE it's IT'S don't 'tis 'sS 'x '", "x = (y+3)*2; // note\n\n  return x;\n",
    "1 22 333 4444 1234567 3.14 1,000,000 ½ ² Ⅷ ٣٤٥ 一二三", "don’t “quote” …—–",
    "naïve café Führer Größe Ünï", "Cửa Việt e\u0301e\u0301 \u0301x", "привет мир, как дела?", "नमस्ते दुनिया हिन्दी",
    "កាន់តែពិសេសអាចខលចេញ", "你好，世界！今天是2024年。", "日本語のテキスト、カタカナ ー ひらがな", "한국어 텍스트 123개",
    "🚀 (normal) 😶‍🌫️ (joined) ✅ 🦙🦙", "a\u00a0b\u2003c\u3000d\u200be\u0085f", "#include <stdio.h>\n\tint main() {}\n",
    "$100 €50 £20 ¥5 +=-<>^~|`", "_under_score __init__ snake_case_2", "ﬁne ﬂ Ǆ ǅ ʰ ª º ℂ Ω K Ⓐ", "..!!??  ..\n..\r\n..",
    "trailing spaces   ", "trailing newline\n", "  \n  \n  x  \n", "\t\n\t x", "end '", "'s", " 's", "'", "''s", "1a2b3c",
    "𐐀𐐨 𝒳𝓎 𝟘𝟙𝟚𝟛 𞤀", "\u0000\u0001\u007f", "Ⴀᏸ ᲐᲑ აბგ ᴀ Ḁ ẞ Ա", "A~B!C。D「E」F・G", "x\u2028y\u2029z", "\u1680\u180e\u2060",
]

POOL = ("  \n\r\t'aAsStTrReEvVmMlLdDzZ0123456789.,!?-_$+<=>^~|`#@()[]{}\\/:;*&%\"" * 3 +
        "éüßñÀǅʰªµ½²Ⅷ٣٤५\u0301\u0903\u20dd\u00a0\u2003\u3000\u0085\u200b\u2028’“”…—€£¥°©™√∞αΩжЖאبकกកაႠᎠḀửᴀ一龥鿿あアー・。、「！Ａａ～가힣"
        "😀🦙\u200d\ufe0f𐐀𝒳𝟘𞤀\U0001d165\U000e0100\u0378\ue000\ufffd\u0000\u007f")


def random_text(rng):
    text = []
    while len(text) < 24 and rng.random() < 0.95:
        text += [rng.choice(POOL)] * (rng.choice((1, 1, 1, 2, 3, 4)))
    return "".join(text)


def stage(expression, pieces):
    out = []
    for piece in pieces:
        pos = 0
        for match in expression.finditer(piece):
            out += [piece[pos:match.start()], match.group()]
            pos = match.end()
        out.append(piece[pos:])
    return [p for p in out if p]


def split(name, text):
    pieces = [text]
    for expression in COMPILED[name]:
        pieces = stage(expression, pieces)
    return pieces


# What the module calls \s differs a little from the Unicode property that the tokenizers mean.
def unicode_space(expression):
    return expression.replace(r"\s", r"\p{White_Space}").replace(r"\S", r"\P{White_Space}")


# V1: "&&" takes common characters of sets.
COMPILED = {name: [regex.compile(unicode_space(e), regex.V1) for e in list_] for name, list_ in EXPRESSIONS.items()}

if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    texts = TEXTS + [random_text(rng) for _ in range(count)]
    rows = []
    for text in texts:
        # Lengths of the words in UTF-8 bytes: compact, and exact where text is hard to see.
        lengths = {name: [len(p.encode()) for p in split(name, text)] for name in EXPRESSIONS}
        rows.append(json.dumps({"text": text, "words": lengths}, separators=(",", ":")))
    print("[\n" + ",\n".join(rows) + "\n]")
