"""Wrong programs for 2.1/pretokenizer, as edits of the solution."""

from grader.testing import edit

word_char_class = edit('elif category.startswith("L"):', 'elif re.match(r"[^\\W\\d_]", char):')

unicode_digits_only = edit('elif category.startswith("N"):', 'elif re.match(r"\\d", char):').then(
    'return unicodedata.category(char).startswith("N")', 'return re.match(r"\\d", char) is not None'
)

whitespace_run_whole = edit(r"|\s+(?!\S)|\s+", r"|\s+")

case_insensitive_contractions = edit("'(?:[stmd]|ll|ve|re)", "'(?i:[stmd]|ll|ve|re)")

tab_as_space = edit(r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+", r"\s?[A-Za-z]+|\s?[0-9]+|\s?[^\sA-Za-z0-9]+")

strips_text = edit(
    "return [text[match.start() : match.end()] for match in _GPT2.finditer(shadow)]",
    "return [word[m.start() : m.end()] for word in text.split() for m in _GPT2.finditer(word.translate(_stand_ins))]",
)

quadratic_lookahead = edit.function(
    "gpt2_split",
    """
def gpt2_split(text):
    shadow = text.translate(_stand_ins)
    pieces = []
    at = 0
    while at < len(text):
        if shadow[at] not in " \\t\\n\\r\\x0b\\x0c":
            end = _GPT2.match(shadow, at).end()
            pieces.append(text[at:end])
            at = end
            continue
        # One white space character: is a word after its run, and is this the last one before it?
        end = at
        while end < len(text) and shadow[end] in " \\t\\n\\r\\x0b\\x0c":
            end += 1
        if end < len(text) and end == at + 1:
            found = _GPT2.match(shadow, at).end()
            pieces.append(text[at:found])
            at = found
        else:
            continues = pieces and at > 0 and shadow[at - 1] in " \\t\\n\\r\\x0b\\x0c" and pieces[-1].isspace()
            if continues:
                pieces[-1] += text[at]
            else:
                pieces.append(text[at])
            at += 1
    return pieces
""",
)

mean_of_ratios = edit(
    """    return sum(len(text.encode()) for text in texts) / tokens
""",
    """    return sum(len(text.encode()) / len(encode(text)) for text in texts) / len(texts)
""",
)

counts_characters = edit(
    "return sum(len(text.encode()) for text in texts) / tokens", "return sum(map(len, texts)) / tokens"
)

groups_from_the_wrong_side = edit(
    "first = len(digits) % size if from_right else 0", "first = 0 if from_right else len(digits) % size"
)
