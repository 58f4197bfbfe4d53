# Makes tests/reference/choices: questions, a tiny model, and what it says of each choice.
# SPDX-License-Identifier: Apache-2.0
"""Usage: python make_choices.py [FOLDER]. Writes FOLDER/model (a Llama with a tokenizer),
FOLDER/questions.jsonl, and FOLDER/expected.jsonl: for each question the log-likelihoods of
its choices in double precision by the rules of lm-evaluation-harness's `hf` models, without
the tokens that the tokenizer adds ("plain") and with them ("special")."""

import json
import os
import random
import sys

import tokenizers
import torch
import transformers

POSITIONS, VOCABULARY, QUESTIONS = 40, 300, 50
WORDS = ("the sea was calm and a ship with three banks of oars left harbour at noon while "
         "gulls cried über den Wellen, 海 と 船, naïve café; 12 men rowed 345 strokes.").split(" ")


def make_tokenizer():
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<s>", "</s>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    made.train_from_iterator([" ".join(WORDS)] * 3, trainer)
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", made.token_to_id("<s>"))])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>",
                                                eos_token="</s>")


def make_model():
    torch.manual_seed(7)
    config = transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=16, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=24, vocab_size=VOCABULARY, max_position_embeddings=POSITIONS,
        initializer_range=0.4, bos_token_id=0, eos_token_id=1)
    return transformers.LlamaForCausalLM(config).eval()


def some_words(least, most):
    return " ".join(random.choice(WORDS) for _ in range(random.randint(least, most)))


def make_questions():
    random.seed(11)
    questions = []
    for i in range(QUESTIONS):
        context = some_words(1, 14) + random.choice(["", "", ":", " ", "\t ", "\u00a0", "\u3000 "])
        if i % 10 == 3:
            context = ""
        if i % 10 == 7:
            context = some_words(30, 40)
        choices = [some_words(1, 5) for _ in range(random.randint(2, 5))]
        answer = random.randrange(len(choices))
        question = {"id": i, "context": context, "choices": choices, "answer": answer}
        if i % 5 == 1:
            question = {"query": context, "endings": choices, "label": str(answer)}
        if i % 5 == 2:
            labels = [chr(ord("A") + k) for k in range(len(choices))]
            question = {"question": context, "choices": {"text": choices, "label": labels},
                        "answerKey": labels[answer]}
        questions.append((question, context, choices))
    return questions


def encode(tokenizer, context, continuation, special):
    def ids(text):
        return tokenizer.encode(text, add_special_tokens=special)

    if context == "":
        return [tokenizer.bos_token_id], tokenizer.encode(continuation, add_special_tokens=False)
    blanks = len(context) - len(context.rstrip())
    if blanks > 0:
        context, continuation = context[:-blanks], context[-blanks:] + continuation
    before = ids(context)
    return before, ids(context + continuation)[len(before):]


def log_likelihood(model, before, scored):
    inputs = (before + scored)[-(POSITIONS + 1):][:-1]
    with torch.no_grad():
        logits = model(torch.tensor([inputs])).logits[0]
    log_probabilities = torch.log_softmax(logits, dim=-1)[-len(scored):]
    return log_probabilities.gather(1, torch.tensor(scored)[:, None]).sum().item()


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "choices")
    tokenizer, model = make_tokenizer(), make_model()
    os.makedirs(folder, exist_ok=True)
    model.save_pretrained(os.path.join(folder, "model"))
    tokenizer.backend_tokenizer.save(os.path.join(folder, "model", "tokenizer.json"))
    model = model.double()
    with open(os.path.join(folder, "questions.jsonl"), "w", encoding="utf-8") as asked, \
            open(os.path.join(folder, "expected.jsonl"), "w", encoding="utf-8") as said:
        for question, context, choices in make_questions():
            asked.write(json.dumps(question, ensure_ascii=False) + "\n")
            expected = {}
            for name, special in (("plain", False), ("special", True)):
                expected[name] = [
                    log_likelihood(model, *encode(tokenizer, context, " " + choice, special))
                    for choice in choices]
            said.write(json.dumps(expected) + "\n")


main()
