"""Random small templates for template_check: expressions and statements of Jinja over a context of mixed values."""

CONTEXT = {
    "a": 3,
    "b": -2,
    "f": 2.5,
    "s": "Hello, wörld",
    "t": "  a b  c ",
    "e": "",
    "n": None,
    "yes": True,
    "no": False,
    "xs": [3, 1, 2],
    "words": ["b", "A", "c", "a"],
    "d": {"x": 1, "y": "two", "items": 3},
    "rows": [{"name": "u", "v": 2}, {"name": "B", "v": 1}, {"name": "a", "v": 2, "k": None}],
    "empty": [],
    "deep": {"p": [{"q": "r"}, None, 1.0]},
}
TEXTS = ["'x'", "''", "'a b'", "'\\n'", "'ü€'", '"it\'s"', "'%s-%d'", "'<|x|>'"]
TEXT_METHODS = [
    "strip()", "lstrip()", "rstrip('d')", "split()", "split(' ')", "split('l', 1)", "rsplit('l', 1)", "upper()", "lower()",
    "title()", "capitalize()", "startswith('H')", "endswith(('d', 'x'))", "replace('l', 'LL')", "find('l')", "count('l')",
    "splitlines()", "isdigit()", "partition(' ')", "zfill(14)", "center(15)", "removeprefix('Hell')", "join(['1', '2'])",
    "rfind('l')", "format(1, x=2)", "index('o')", "isalpha()", "swapcase()", "ljust(14, '.')",
]
FILTERS = {  # by what they are for: (filters, what they make)
    "text": [
        ("upper", "text"), ("lower", "text"), ("trim", "text"), ("length", "number"), ("first", "text"), ("last", "text"),
        ("list", "list"), ("join('-')", "text"), ("tojson", "text"), ("title", "text"), ("capitalize", "text"),
        ("replace('a', 'b')", "text"), ("indent(2)", "text"), ("indent(width=3, first=true)", "text"), ("int", "number"),
        ("truncate(5)", "text"), ("center(12)", "text"), ("wordcount", "number"), ("e", "text"), ("safe", "text"),
        ("urlencode", "text"), ("default('D', true)", "text"), ("reverse", "text"), ("float", "number"), ("sort", "list"),
        ("unique|list", "list"), ("string", "text"), ("format(1, 2)", "text"), ("indent('> ', blank=true)", "text"),
    ],
    "list": [
        ("first", "any"), ("last", "any"), ("length", "number"), ("join", "text"), ("join(', ')", "text"), ("tojson", "text"),
        ("tojson(indent=2)", "text"), ("reverse|list", "list"), ("map('string')|list", "list"), ("string", "text"),
        ("map(attribute='name')|list", "list"), ("select|list", "list"), ("selectattr('v', 'equalto', 2)|list", "list"),
        ("rejectattr('k', 'defined')|list", "list"), ("batch(2)|list", "list"), ("slice(2)|list", "list"), ("list", "list"),
        ("map(attribute='k', default=0)|list", "list"), ("select('string')|list", "list"), ("reject('none')|list", "list"),
        ("map('tojson')|join(', ')", "text"), ("tojson(separators=(',', ':'))", "text"), ("selectattr('v')|list", "list"),
        ("map('length')|list", "list"), ("sort", "list"), ("sum", "any"), ("max", "any"), ("min", "any"), ("unique|list", "list"),
        ("batch(3, 'z')|list", "list"), ("slice(2, 'z')|list", "list"), ("join('-', attribute='name')", "text"),
    ],
    "number": [
        ("abs", "number"), ("round", "number"), ("round(1)", "number"), ("int", "number"), ("float", "number"),
        ("string", "text"), ("tojson", "text"), ("default(1)", "number"), ("round(0, 'ceil')", "number"),
        ("round(1, 'floor')", "number"), ("upper", "text"),
    ],
    "rows": [
        ("groupby('v')", "list"), ("sort(attribute='name')", "list"), ("sort(attribute='v,name')", "list"),
        ("map(attribute='name')|sort", "list"), ("map(attribute='v')|sum", "number"), ("sum(attribute='v')", "number"),
        ("max(attribute='v')", "any"), ("selectattr('name', 'in', ['u', 'a'])|list", "list"), ("unique(attribute='v')|list", "list"),
        ("sort(attribute='name', reverse=true, case_sensitive=true)", "list"), ("last", "any"), ("tojson(indent=1)", "text"),
    ],
    "dict": [
        ("dictsort", "list"), ("items|list", "list"), ("list", "list"), ("length", "number"), ("tojson", "text"),
        ("tojson(sort_keys=true)", "text"), ("dictsort(by='value', reverse=true)", "list"), ("tojson(indent=4)", "text"),
        ("string", "text"), ("first", "text"), ("urlencode", "text"),
    ],
}
TESTS = [
    "defined", "undefined", "none", "string", "mapping", "iterable", "number", "sequence", "true", "false", "boolean",
    "integer", "float", "odd", "even", "divisibleby 2", "equalto(3)", "eq 1", "in xs", "lower", "upper", "callable",
    "sameas none", "gt 1", "ne 2", "not none", "not defined", "not string",
]
GAPS = ["", " ", "\n", "  ", "\n  ", "  \n", "\n\n", " text ", "x\n"]


TEXT_ATOMS = ["s", "t", "e", "s[1]", "s[1:4]", "s[-3:]", "s[::2]", "t[5:1:-1]", "d.y", "d['y']", "rows[0].name", "deep.p[0].q",
              "words[1]", "s.0"] + TEXTS
NUMBER_ATOMS = ["a", "b", "f", "0", "1", "2", "-1", "10", "1.5", "0.1", "1e3", "1_000", "d.x", "xs[-1]", "rows|length",
                "rows[0]['v']", "yes", "loop.index0", "2.675", "1e16", "0.5", "7"]
LIST_ATOMS = ["xs", "words", "rows", "empty", "[]", "()", "[1, 'a']", "(1, 2)", "(1,)", "xs[1:]", "xs[::-1]", "words[:2]",
              "range(3)|list", "range(1, 7, 2)|list", "d.keys()|list", "d.values()|list", "d.items()|list", "deep.p"]
OTHER_ATOMS = ["n", "yes", "no", "missing", "v", "w", "true", "none", "false", "d", "rows[0]", "{}", "{'k': 1, 2: 'z'}", "xs[9]",
               "d.missing", "d.get('z', 4)", "rows[-1]['k']", "loop.last", "loop.first", "ns.v"]


def atom(r, want):
    pool = {"text": TEXT_ATOMS, "number": NUMBER_ATOMS, "list": LIST_ATOMS, "rows": ["rows", "rows[1:]", "rows[::-1]"],
            "dict": ["d", "rows[0]", "deep", "{'k': 1, 'B': 'z'}", "dict(x=1, y=xs)"]}
    return r.choice(pool.get(want) or r.choice([TEXT_ATOMS, NUMBER_ATOMS, LIST_ATOMS, OTHER_ATOMS]))


def filtered(r, depth, want):
    """Something with a filter that makes what is wanted."""
    makers = [(kind, name) for kind, filters in FILTERS.items() for name, makes in filters if want in ("any", makes)]
    if not makers:
        return atom(r, want)
    kind, name = r.choice(makers)
    subject = expression(r, depth - 1, kind)
    return f"({subject})|{name}" if r.random() < 0.8 else f"{subject}|{name}"


def operated(r, depth, want):
    if want == "text":
        return f"{expression(r, depth - 1, 'text')} {r.choice('+~')} {expression(r, depth - 1, 'text')}"
    if want == "number":
        if r.random() < 0.1:
            return f"{atom(r, 'number')} ** {r.randrange(-1, 3)}"
        op = r.choice(["+", "-", "*", "/", "//", "%"])
        return f"{expression(r, depth - 1, 'number')} {op} {expression(r, depth - 1, 'number')}"
    if want == "list":
        return f"{expression(r, depth - 1, 'list')} + {expression(r, depth - 1, 'list')}"
    kind = r.choice(["text", "number", "list", "any"])
    op = r.choice(["==", "!=", "and", "or", "in", "not in", "~"] if kind in ("any", "list") else ["<", "<=", ">", ">=", "=="])
    return f"{expression(r, depth - 1, kind)} {op} {expression(r, depth - 1, kind)}"


def expression(r, depth, want="any"):
    if want not in ("rows", "dict") and r.random() < 0.04:
        want = "any"
    if depth <= 0 or want in ("rows", "dict"):
        return atom(r, want)
    kind = r.randrange(12)
    if kind < 4:
        return filtered(r, depth, want)
    if kind < 7:
        return operated(r, depth, want)
    if kind == 7:
        return f"({expression(r, depth - 1, want)})"
    if kind == 8:
        return f"({expression(r, depth - 1, want)} if {expression(r, depth - 1)} else {expression(r, depth - 1, want)})"
    if kind == 9 and want in ("any", "text"):
        return f"({expression(r, depth - 1, 'text')}).{r.choice(TEXT_METHODS)}"
    if kind == 10 and want == "any":
        return f"{expression(r, depth - 1)} is {r.choice(TESTS)}"
    if kind == 11 and want == "any":
        return r.choice([f"not {expression(r, depth - 1)}", f"-{expression(r, depth - 1, 'number')}",
                         f"[{expression(r, depth - 1)}, {expression(r, depth - 1)}]", f"{{'k': {expression(r, depth - 1)}}}"])
    return atom(r, want)


def tag(r, body):
    return f"{{%{r.choice(['', '', '', '-', '+'])} {body} {r.choice(['', '', '', '-', '+'])}%}}"


def statements(r, depth):
    return "".join(r.choice(GAPS) + statement(r, depth) for _ in range(r.randrange(1, 4))) + r.choice(GAPS)


def statement(r, depth):
    kind = r.randrange(16) if depth > 0 else r.randrange(4)
    e = lambda: expression(r, r.randrange(3))
    body = lambda: statements(r, depth - 1)
    if kind < 3:
        return f"{{{{{r.choice(['', '', '-'])} {e()} {r.choice(['', '', '-'])}}}}}"
    if kind == 3:
        return r.choice(["{# note #}", "{#- note -#}", "{# a\n b #}\n", "{% raw %} {{ x }} {% endraw %}"])
    if kind < 6:
        rest = tag(r, f"elif {e()}") + body() if r.random() < 0.3 else ""
        rest += tag(r, "else") + body() if r.random() < 0.4 else ""
        return tag(r, f"if {e()}") + body() + rest + tag(r, "endif")
    if kind < 9:
        target, over = r.choice([("v", "xs"), ("v", "words"), ("v, w", "d.items()"), ("v", "rows"), ("v", "s"), ("v", "empty"),
                                 ("v", "d"), ("v", "missing"), ("v", "range(3)"), ("v", e())])
        where = f" if {e()}" if r.random() < 0.2 else ""
        control = tag(r, f"if {e()}") + tag(r, r.choice(["break", "continue"])) + tag(r, "endif") if r.random() < 0.3 else ""
        rest = tag(r, "else") + body() if r.random() < 0.3 else ""
        return tag(r, f"for {target} in {over}{where}") + body() + control + body() + rest + tag(r, "endfor")
    if kind == 9:
        return tag(r, f"set v = {e()}")
    if kind == 10:
        return tag(r, f"set ns = namespace(v={e()})") + tag(r, f"set ns.v = {e()}") + "{{ ns.v }}"
    if kind == 11:
        return tag(r, f"set v{r.choice(['', ' | upper', ' | trim'])}") + body() + tag(r, "endset")
    if kind == 12:
        name = r.choice(["m", "k"])
        return (tag(r, f"macro {name}(v, w={e()})") + body() + tag(r, "endmacro") +
                f"{{{{ {name}({e()}{', w=' + e() if r.random() < 0.4 else ''}) }}}}")
    if kind == 13:
        return tag(r, f"filter {r.choice(['upper', 'trim', 'indent(2)'])}") + body() + tag(r, "endfilter")
    if kind == 14:
        return tag(r, f"with v = {e()}, w = {e()}") + body() + tag(r, "endwith")
    return tag(r, "generation") + body() + tag(r, "endgeneration")


def random_case(r):
    return statements(r, 2), CONTEXT
