#!/usr/bin/env python3
"""Writes config_defaults.json: for each family of models, by model_type, the config that transformers makes of an empty
config.json ("absent"), and for each of its keys what it makes of null ("null"; a key that it refuses then is not in it).

usage: golden_config_defaults.py   (needs the Python package transformers; 5.12 made the file)
"""
import json
import pathlib

from transformers import AutoConfig

OUT = pathlib.Path(__file__).parent / "config_defaults.json"
FAMILIES = ["gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "olmo2", "smollm3", "granite", "phi3",
            "stablelm", "olmo3", "ministral3", "nanochat", "lfm2", "lfm2_moe", "qwen3_next", "qwen3_5_text", "gpt_oss", "granitemoehybrid", "falcon_h1"]
# Of nemotron_h, an empty file has experts, which are refused: see test_nemotron_h.cpp.
# What every config has, and what stands for no number of the model.
LEFT_OUT = {"transformers_version", "architectures", "output_hidden_states", "return_dict", "dtype", "chunk_size_feed_forward",
            "is_encoder_decoder", "id2label", "label2id", "problem_type", "_name_or_path", "output_attentions", "use_cache",
            "model_type", "initializer_range", "bos_token_id", "eos_token_id", "pad_token_id", "mamba_chunk_size",
            "time_step_min", "time_step_max", "time_step_limit", "num_logits_to_keep"}


def made(family, **keys):
    config = AutoConfig.for_model(family, **keys).to_dict()
    return {key: value for key, value in config.items() if key not in LEFT_OUT and not key.startswith("summary_")}


def main():
    families = {}
    for family in FAMILIES:
        absent, null = made(family), {}
        for key in absent:
            try:
                null[key] = made(family, **{key: None})[key]
            except Exception:  # transformers' own check, or arithmetic with None
                pass
        families[family] = {"absent": absent, "null": null}
    OUT.write_text(json.dumps(families, indent=1) + "\n")


main()
