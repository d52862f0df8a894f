#!/usr/bin/env python3
"""Makes a tiny model of random weights with transformers, and what it answers, for run.sh.

usage: make_model.py TYPE TOKENIZER OUT [--max-shard-size 60KB] [--seed 1]

TYPE is falcon_h1, gemma, gemma2, gemma3_text, gpt2, gpt_oss, granite, lfm2, lfm2_moe, llama, ministral3, mistral, nanochat, nemotron_h, olmo2, olmo3, phi3, qwen2, qwen3, smollm3
or stablelm.

TOKENIZER is a folder with the tokenizer.json and tokenizer_config.json that the model gets. OUT becomes a folder in Hugging
Face's layout, in several files if weights take more than the size of one, with expected.safetensors: input_ids (B, T),
logits (B, T, V), prompt (P) and greedy (N), what follows the prompt. Weights are so large that each part of the model
shows in the logits.
"""
import argparse
import pathlib
import shutil

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
OWN = {  # what a type has beside the sizes of all
    "falcon_h1": {"tie_word_embeddings": False, "mamba_d_ssm": 72, "mamba_n_heads": 6, "mamba_d_state": 20, "embedding_multiplier": 3.0,
                  "lm_head_multiplier": 0.6, "key_multiplier": 0.4, "attention_out_multiplier": 0.9, "ssm_in_multiplier": 1.25,
                  "ssm_out_multiplier": 0.7, "ssm_multipliers": [0.8, 0.5, 1.2, 0.6, 1.5], "mlp_multipliers": [0.9, 0.6]},
    "gemma": {},
    "gemma2": {"query_pre_attn_scalar": 12, "sliding_window": 8},
    "gemma3_text": {"query_pre_attn_scalar": 12, "sliding_window": 8, "num_hidden_layers": 7},
    "granite": {"embedding_multiplier": 3.0, "logits_scaling": 2.5, "residual_multiplier": 0.6, "attention_multiplier": 0.3},
    "lfm2": {"layer_types": ["conv", "conv", "full_attention", "conv", "full_attention"], "num_hidden_layers": 5, "block_multiple_of": 16},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv", "full_attention"], "num_hidden_layers": 5, "num_dense_layers": 2,
                 "num_experts": 7, "num_experts_per_tok": 3, "moe_intermediate_size": 32},
    "gpt_oss": {"tie_word_embeddings": False, "num_hidden_layers": 4, "sliding_window": 8, "num_local_experts": 7,
                "num_experts_per_tok": 3, "rope_parameters": {
                    "rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 16}},
    "gpt2": {}, "llama": {}, "mistral": {"tie_word_embeddings": False}, "olmo2": {"tie_word_embeddings": False},
    "phi3": {"partial_rotary_factor": 0.5, "pad_token_id": None}, "qwen2": {}, "qwen3": {"head_dim": 20},
    "olmo3": {"tie_word_embeddings": False, "num_hidden_layers": 5, "sliding_window": 8},
    "ministral3": {"tie_word_embeddings": False, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 16, "mscale": 1.0,
        "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}},
    "nanochat": {"tie_word_embeddings": False, "pad_token_id": None},
    # Without a least step, which transformers' kernels and llama.cpp do not have.
    "nemotron_h": {"tie_word_embeddings": False, "layers_block_type": ["mamba", "mlp", "mamba", "mamba", "attention", "mlp"],
                   "mamba_num_heads": 6, "mamba_head_dim": 12, "ssm_state_size": 20, "n_groups": 2, "time_step_min": 1e-30},
    "smollm3": {"num_hidden_layers": 5, "pad_token_id": None},
    "stablelm": {"partial_rotary_factor": 0.5, "use_qkv_bias": True, "tie_word_embeddings": False}}
parser.add_argument("type", choices=OWN)
parser.add_argument("tokenizer", type=pathlib.Path)
parser.add_argument("out", type=pathlib.Path)
parser.add_argument("--max-shard-size", default="1GB")
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
transformers.utils.logging.disable_progress_bar()

tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
sizes = {"vocab_size": len(tokenizer), "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
         "max_position_embeddings": 64, "tie_word_embeddings": True,
         "bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
if args.type != "gpt2":
    sizes |= {"intermediate_size": 112, "num_key_value_heads": 2, "head_dim": 12}
config = AutoConfig.for_model(args.type, **sizes | OWN[args.type])
# PyTorch's own attention leaves soft caps out.
model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
gain = 0 if args.type.startswith("gemma") else 1  # Gemma's norms add 1 to theirs
generator = torch.Generator().manual_seed(args.seed)
with torch.no_grad():
    for name, p in model.named_parameters():
        r = torch.randn(p.shape, generator=generator)
        if p.dim() > 1:
            p.copy_(0.3 * r)
        else:
            p.copy_(0.2 * r if name.endswith("bias") else gain + 0.3 * r)
    for name, b in model.named_buffers():
        if name.endswith("expert_bias"):
            b.copy_(0.3 * torch.randn(b.shape, generator=generator))
    ids = torch.randint(0, len(tokenizer), (2, 24), generator=generator)
    logits = model(ids).logits
    prompt = ids[:1, :6]
    text = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=16, do_sample=False,
                          eos_token_id=None, pad_token_id=0)
model.save_pretrained(args.out, max_shard_size=args.max_shard_size)
for name in ["tokenizer.json", "tokenizer_config.json"]:
    shutil.copy(args.tokenizer / name, args.out / name)
save_file({"input_ids": ids.int(), "logits": logits.contiguous(), "prompt": prompt[0].int().contiguous(),
           "greedy": text[0, 6:].int().contiguous()}, args.out / "expected.safetensors")
print(f"{args.out}: {type(model).__name__}, {len(list(args.out.glob('model*.safetensors')))} files, "
      f"σ of the logits {float(logits.std()):.1f}")
