#!/usr/bin/python3
"""Compares smelt's SentencePiece tokenizer with the library of that name (Debian: python3-sentencepiece).

usage: check_sentencepiece.py PATH/TO/encode_texts [TEXTS [SEED]]

Trains small vocabularies that differ in what they do with spaces, bytes and user-defined tokens, writes each as a GGUF
file, and those that Hugging Face models have also as a folder of such a model, and compares the ids of random texts, and
what the ids read as, with what the library gives.
"""
import io
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

try:
    import sentencepiece
except ImportError:
    sys.exit("check_sentencepiece: python3-sentencepiece is missing; run tools/setup")

WORDS = """the of and to in is that for it was on as with he be at by this had not are but from or have an they which
one you were all her she there would their we him been has when who will no more if out so up said what its about than
into them can only other time new some could these two may first then do any like my now over such our man me even
most made after also did many off before must well back through years much where your way down should because long
each just state people those too mr how little good world make very year still see own work men day get here old life
both between being under three never know same last another while us might great go come since against right came take
used himself few house American use place during high without again home around small however found mrs thought went
say part once Café naïve Straße Übung élève señor año привет мир дорога работа 世界 你好 今天 日本語 カタカナ ひらがな 한국어 12 345 2024
3.14""".split()
STRANGE = "🦙😀\u200d\u0301\u00a0\u3000\u2581\t\n\r\x7f\u2028ﬁ½Ⅷ𝒳ق한字"
MARKS = ".,;:!?'\"()[]{}<>/\\|-_=+*&^%$#@~`0123456789"
USER_DEFINED = ["<b>", "</b>", "<table>", "\n", "\n\n", "\n\n\n", "▁▁", "▁▁▁▁", "ß?"]

# name: options of the trainer; what GGUF files say of them. BPE, if they name no other model
VOCABULARIES = {
    "unigram as T5": dict(model_type="unigram", add_dummy_prefix=True, remove_extra_whitespaces=True,
                          byte_fallback=False, normalization_rule_name="nmt_nfkc"),
    "unigram with bytes": dict(model_type="unigram", add_dummy_prefix=True, remove_extra_whitespaces=False,
                               byte_fallback=True),
    "unigram with user-defined tokens": dict(model_type="unigram", add_dummy_prefix=False, byte_fallback=True,
                                             remove_extra_whitespaces=False, user_defined_symbols=USER_DEFINED,
                                             normalization_rule_name="nfkc_cf"),
    "as Llama 2": dict(add_dummy_prefix=True, remove_extra_whitespaces=False, byte_fallback=True),
    "as Gemma": dict(add_dummy_prefix=False, remove_extra_whitespaces=False, byte_fallback=True,
                     user_defined_symbols=USER_DEFINED),
    "user-defined tokens behind a space": dict(add_dummy_prefix=True, remove_extra_whitespaces=False,
                                               byte_fallback=True, user_defined_symbols=USER_DEFINED),
    "as the library by itself": dict(add_dummy_prefix=True, remove_extra_whitespaces=True, byte_fallback=False),
    "blanks dropped, no prefix": dict(add_dummy_prefix=False, remove_extra_whitespaces=True, byte_fallback=True),
}


def sentence(rng):
    return " ".join(rng.choice(WORDS) + rng.choice(["", "", "", "s", "ed", "ing", ",", "."])
                    for _ in range(rng.randint(3, 15)))


def random_text(rng):
    """Words of the corpus, pieces of them, marks, blanks and characters that it lacks."""
    kinds = [lambda: rng.choice(WORDS), lambda: rng.choice(WORDS)[: rng.randint(1, 4)], lambda: rng.choice(MARKS),
             lambda: rng.choice(STRANGE), lambda: " " * rng.randint(1, 5), lambda: rng.choice(USER_DEFINED),
             lambda: rng.choice("abcdefghijklmnopqrstuvwxyz") * rng.randint(1, 20),
             lambda: chr(rng.choice([rng.randint(*r) for r in ((0x20, 0x2FF), (0x400, 0xD7FF), (0x10000, 0x10FFFF))]))]
    return "".join(rng.choice(kinds)() + rng.choice(["", "", " "]) for _ in range(rng.randint(0, 30)))


def train(options, seed):
    """A vocabulary of 700 tokens. BPE has no NFKC and the like: GGUF files of its kind have no table for them."""
    rng = random.Random(seed)
    model = io.BytesIO()
    kind = dict(model_type="bpe", normalization_rule_name="identity") | options
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentence(rng) for _ in range(3000)), model_writer=model, vocab_size=700,
        character_coverage=0.999, max_sentencepiece_length=24, allow_whitespace_only_pieces=True, minloglevel=2, **kind)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def field(data, wanted):
    """The bytes of a field of a message, as protocol buffers have it; the last one counts."""
    at, found = 0, b""
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            _, at = varint(data, at)
            continue
        size = {1: 8, 5: 4}.get(tag & 7)
        if size is None:
            size, at = varint(data, at)
        if tag >> 3 == wanted:
            found = data[at : at + size]
        at += size
    return found


def gguf_text(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def gguf_list(kind, values, pack):
    return struct.pack("<IIQ", 9, kind, len(values)) + b"".join(pack(v) for v in values)


def write_gguf(path, processor, options):
    ids = range(processor.vocab_size())

    def type_of(i):
        return (2 if processor.is_unknown(i) else 3 if processor.is_control(i) else 5 if processor.is_unused(i)
                else 6 if processor.is_byte(i) else 4 if processor.id_to_piece(i) in USER_DEFINED else 1)

    flag = lambda value: struct.pack("<IB", 7, value)
    is_unigram = options.get("model_type") == "unigram"
    entries = {
        "general.architecture": struct.pack("<I", 8) + gguf_text("llama"),
        "tokenizer.ggml.model": struct.pack("<I", 8) + gguf_text("t5" if is_unigram else "llama"),
        "tokenizer.ggml.tokens": gguf_list(8, [processor.id_to_piece(i) for i in ids], gguf_text),
        "tokenizer.ggml.scores": gguf_list(6, [processor.get_score(i) for i in ids], lambda v: struct.pack("<f", v)),
        "tokenizer.ggml.token_type": gguf_list(5, [type_of(i) for i in ids], lambda v: struct.pack("<i", v)),
        "tokenizer.ggml.add_space_prefix": flag(options["add_dummy_prefix"]),
        "tokenizer.ggml.remove_extra_whitespaces": flag(options["remove_extra_whitespaces"]),
    }
    if is_unigram:
        charsmap = field(field(processor.serialized_model_proto(), 3), 2)  # normalizer_spec.precompiled_charsmap
        entries["tokenizer.ggml.precompiled_charsmap"] = struct.pack("<IIQ", 9, 0, len(charsmap)) + charsmap
        entries["tokenizer.ggml.unknown_token_id"] = struct.pack("<II", 4, processor.unk_id())
    with open(path, "wb") as out:
        out.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)))
        for key, value in entries.items():
            out.write(gguf_text(key) + value)


def merges_of(processor):
    """All ways to make a piece of two, those of the highest score first: what tokenizer.json has in place of scores."""
    ids = {processor.id_to_piece(i): i for i in range(processor.vocab_size())}
    found = []
    for piece, i in ids.items():
        pairs = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        pairs = sorted((ids[a], ids[b], a, b) for a, b in pairs if a in ids and b in ids)
        found += [(-processor.get_score(i), order, a, b) for order, (_, _, a, b) in enumerate(pairs)]
    return [f"{a} {b}" for _, _, a, b in sorted(found, key=lambda entry: entry[:1])]


def write_folder(path, processor, options):
    """The vocabulary as a Hugging Face model, whose only tensor is an embedding."""
    tokens = range(processor.vocab_size())
    special = [i for i in tokens if processor.is_control(i) or processor.is_unknown(i)]
    added = special + [i for i in tokens if processor.id_to_piece(i) in USER_DEFINED]
    space = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    first = [{"type": "Prepend", "prepend": "▁"}] if options["add_dummy_prefix"] else []
    tokenizer = {
        "added_tokens": [{"id": i, "content": processor.id_to_piece(i), "special": i in special} for i in added],
        "normalizer": {"type": "Sequence", "normalizers": first + [space]},
        "model": {"type": "BPE", "byte_fallback": True, "unk_token": processor.id_to_piece(processor.unk_id()),
                  "vocab": {processor.id_to_piece(i): i for i in tokens}, "merges": merges_of(processor)},
    }
    config = dict(model_type="llama", hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4,
                  max_position_embeddings=8, rms_norm_eps=1e-5, head_dim=4)
    for name, value in (("tokenizer.json", tokenizer), ("config.json", config)):
        with open(os.path.join(path, name), "w") as out:
            json.dump(value, out)
    size = 4 * 4 * len(tokens)
    table = json.dumps({"model.embed_tokens.weight": {"dtype": "F32", "shape": [len(tokens), 4],
                                                      "data_offsets": [0, size]}}).encode()
    with open(os.path.join(path, "model.safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(table)) + table + bytes(size))


def same_text(ours, theirs, options):
    """The library writes the unknown token as it likes; where it drops blanks, also those written as U+2581."""
    if not options["byte_fallback"] or "normalization_rule_name" in options:
        return True
    return ours.lstrip(" ") == theirs.lstrip(" ") if options["remove_extra_whitespaces"] else ours == theirs


def compare(name, processor, options, program, model, texts):
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    answers = subprocess.run([program, model], input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout
    wrong = 0
    for text, line in zip(texts, answers.decode().split("\n")[:-1], strict=True):
        answer, ids = json.loads(line), processor.encode(text)
        if answer["ids"] == ids and same_text(answer["text"], processor.decode(ids), options):
            continue
        wrong += 1
        if wrong <= 3:
            print(f"{name}: {text!r}\n  sentencepiece {[processor.id_to_piece(i) for i in ids]}"
                  f" {processor.decode(ids)!r}"
                  f"\n  smelt         {[processor.id_to_piece(i) for i in answer['ids']]} {answer['text']!r}")
    return wrong


def is_of_hugging_face(options):
    return options["byte_fallback"] and not options["remove_extra_whitespaces"] and "model_type" not in options


def compare_all(name, options, program, texts, seed):
    processor = train(options, seed)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "model.gguf")
        write_gguf(file, processor, options)
        wrong = compare(name, processor, options, program, file, texts)
        if is_of_hugging_face(options):
            write_folder(folder, processor, options)
            wrong += compare(name + ", folder", processor, options, program, folder, texts)
    return wrong


def main():
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    rng = random.Random(seed)
    wrong = 0
    for name, options in VOCABULARIES.items():
        texts = [random_text(rng) for _ in range(count)] + [" ".join(sentence(rng) for _ in range(500))]
        wrong += compare_all(name, options, program, texts, seed)
    print(f"check_sentencepiece: {len(VOCABULARIES)} vocabularies, {count + 1} texts each, seed {seed}: {wrong} differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
