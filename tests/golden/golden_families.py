#!/usr/bin/env python3
"""Writes families/NAME/: tiny models in Hugging Face's layout, of families that Llama's parts alone do not make, and with rotary
positions scaled by YaRN and biases. Weights are bf16. expected.safetensors has what transformers 5.12 computes with them in f32: logits, a greedy text, and the losses of ten
steps of fine-tuning. Attention is transformers' own, since PyTorch's knows no soft caps. The tokenizer is hf_gpt2's.

usage: golden_families.py [NAME …]   (needs the Python packages torch, transformers, safetensors)
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import (AutoModelForCausalLM, FalconH1Config, FalconH1ForCausalLM, Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, GemmaConfig,
                          GemmaForCausalLM, GptOssConfig, GptOssForCausalLM, GraniteConfig,
                          GraniteForCausalLM, GraniteMoeConfig, GraniteMoeForCausalLM, GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM, Lfm2Config, Lfm2ForCausalLM, Lfm2MoeConfig, Lfm2MoeForCausalLM, LlamaConfig, LlamaForCausalLM, Ministral3Config,
                          Ministral3ForCausalLM, MixtralConfig, MixtralForCausalLM, NanoChatConfig, NanoChatForCausalLM, NemotronHConfig, NemotronHForCausalLM, Olmo2Config,
                          Olmo2ForCausalLM, Olmo3Config, Olmo3ForCausalLM, OlmoeConfig, OlmoeForCausalLM, Phi3Config,
                          Phi3ForCausalLM, Qwen3_5ForCausalLM, Qwen3_5TextConfig, Qwen3MoeConfig, Qwen3MoeForCausalLM, Qwen3NextConfig, Qwen3NextForCausalLM, SmolLM3Config, SmolLM3ForCausalLM, StableLmConfig,
                          StableLmForCausalLM)

from golden_hf import VOCABULARY, fine_tuning

OUT = pathlib.Path(__file__).parent / "families"
SHAPE = {"vocab_size": VOCABULARY, "max_position_embeddings": 24, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None,
         "tie_word_embeddings": True}
WITHOUT_LAYERS = {key: value for key, value in SHAPE.items() if key != "num_hidden_layers"}
YARN = {"rope_type": "yarn", "rope_theta": 5.0, "factor": 2.5, "original_max_position_embeddings": 10}
# Beyond the original positions, where transformers changes the angles, and computes all anew.
LONGROPE = {"rope_type": "longrope", "rope_theta": 50.0, "factor": 1.5, "attention_factor": 0.875, "original_max_position_embeddings": 3, "short_factor": [1.0, 1.25, 1.5],
            "long_factor": [1.5, 3.0, 4.5]}
DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 5, "linear_value_head_dim": 6}
MAMBA = {"mamba_n_heads": 4, "mamba_n_groups": 2, "mamba_d_state": 6}
# The least step is so small that no step is: transformers' own code, unlike its kernels, clamps them there.
NEMOTRON = {"mamba_num_heads": 4, "n_groups": 2, "ssm_state_size": 6, "mamba_head_dim": 6, "head_dim": 6, "time_step_min": 1e-30,
            "tie_word_embeddings": False}
MULTIPLIERS = {"embedding_multiplier": 3.0, "lm_head_multiplier": 0.4, "key_multiplier": 0.6, "attention_out_multiplier": 0.9, "ssm_in_multiplier": 1.25,
               "ssm_out_multiplier": 0.7, "ssm_multipliers": [0.8, 0.5, 1.2, 0.6, 1.5], "mlp_multipliers": [0.9, 0.6]}
KINDS = ["sliding_attention", "full_attention"]
MODELS = {
    "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(
        **SHAPE | {"num_hidden_layers": 3}, head_dim=6, query_pre_attn_scalar=6, sliding_window=4, layer_types=(KINDS * 2)[:3],
        rope_parameters={"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}})),
    "gemma2": lambda: Gemma2ForCausalLM(Gemma2Config(
        **SHAPE, head_dim=6, query_pre_attn_scalar=6, sliding_window=4, attn_logit_softcapping=2.0, final_logit_softcapping=3.0)),
    "gemma": lambda: GemmaForCausalLM(GemmaConfig(**SHAPE, head_dim=6)),
    "olmo2": lambda: Olmo2ForCausalLM(Olmo2Config(**SHAPE | {"tie_word_embeddings": False})),
    "smollm3": lambda: SmolLM3ForCausalLM(SmolLM3Config(**SHAPE | {"num_hidden_layers": 4})),
    "granite": lambda: GraniteForCausalLM(GraniteConfig(
        **SHAPE, embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.6, attention_multiplier=0.3)),
    "phi3": lambda: Phi3ForCausalLM(Phi3Config(
        **SHAPE | {"hidden_size": 32, "tie_word_embeddings": False}, original_max_position_embeddings=24,
        partial_rotary_factor=0.75)),
    "phi3_longrope": lambda: Phi3ForCausalLM(Phi3Config(
        **SHAPE | {"hidden_size": 32, "tie_word_embeddings": False}, original_max_position_embeddings=3,
        partial_rotary_factor=0.75, rope_parameters=dict(LONGROPE))),
    "olmo3": lambda: Olmo3ForCausalLM(Olmo3Config(
        **SHAPE | {"num_hidden_layers": 4, "tie_word_embeddings": False}, sliding_window=4, rope_parameters=dict(YARN))),
    "ministral3": lambda: Ministral3ForCausalLM(Ministral3Config(
        **SHAPE, head_dim=16, rope_parameters=YARN | {"mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5})),
    "nanochat": lambda: NanoChatForCausalLM(NanoChatConfig(**SHAPE | {"tie_word_embeddings": False}, final_logit_softcapping=5.0)),
    # MiniCPM's class is not one of transformers. A Granite with these numbers computes the same: see minicpm().
    "minicpm": lambda: GraniteForCausalLM(GraniteConfig(
        **SHAPE, embedding_multiplier=12.0, residual_multiplier=1.4 / 2 ** 0.5, logits_scaling=16 / 8, attention_multiplier=0.5,
        rope_parameters=LONGROPE | {"factor": 1.2, "attention_factor": None, "original_max_position_embeddings": 20, "short_factor": [1.0, 1.25], "long_factor": [1.5, 3.0]})),
    "stablelm": lambda: StableLmForCausalLM(StableLmConfig(
        **SHAPE | {"hidden_size": 32, "tie_word_embeddings": False}, use_qkv_bias=True, partial_rotary_factor=0.25)),
    "llama_yarn": lambda: LlamaForCausalLM(LlamaConfig(
        **SHAPE, head_dim=16, attention_bias=True, mlp_bias=True, rope_parameters=YARN)),
    "llama_ramp": lambda: LlamaForCausalLM(LlamaConfig(
        **SHAPE, head_dim=16, mlp_bias=True,
        rope_parameters=YARN | {"beta_fast": 1.25, "beta_slow": 0.125, "attention_factor": 0.75, "truncate": False})),
    "mixtral": lambda: MixtralForCausalLM(MixtralConfig(**SHAPE, num_local_experts=4, num_experts_per_tok=2)),
    "olmoe": lambda: OlmoeForCausalLM(OlmoeConfig(
        **SHAPE | {"tie_word_embeddings": False}, num_experts=5, num_experts_per_tok=3)),
    "qwen3_moe": lambda: Qwen3MoeForCausalLM(Qwen3MoeConfig(
        **SHAPE | {"num_hidden_layers": 3}, head_dim=6, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
        moe_intermediate_size=10, mlp_only_layers=[1])),
    "granitemoe": lambda: GraniteMoeForCausalLM(GraniteMoeConfig(
        **SHAPE, num_local_experts=4, num_experts_per_tok=2, embedding_multiplier=3.0, logits_scaling=2.5,
        residual_multiplier=0.6, attention_multiplier=0.3)),
    "granitemoehybrid": lambda: GraniteMoeHybridForCausalLM(GraniteMoeHybridConfig(
        **SHAPE | {"num_hidden_layers": 3}, layer_types=["mamba", "attention", "mamba"], num_local_experts=4, num_experts_per_tok=2,
        shared_intermediate_size=10, embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.6, attention_multiplier=0.3,
        **MAMBA)),
    # Without experts, and with all that the hub's models have not.
    "granitemoehybrid_dense": lambda: GraniteMoeHybridForCausalLM(GraniteMoeHybridConfig(
        **SHAPE | {"tie_word_embeddings": False}, layer_types=["attention", "mamba"], num_local_experts=0, shared_intermediate_size=24,
        position_embedding_type="rope", attention_multiplier=0.3, mamba_conv_bias=False, attention_bias=True,
        **MAMBA | {"mamba_n_groups": 1, "mamba_d_conv": 3, "mamba_expand": 3})),
    "falcon_h1": lambda: FalconH1ForCausalLM(FalconH1Config(
        **SHAPE | {"tie_word_embeddings": False}, **MAMBA, mamba_d_ssm=24, **MULTIPLIERS)),
    # With the norm of some of the hub's models, and with all that these have not.
    "falcon_h1_norm": lambda: FalconH1ForCausalLM(FalconH1Config(
        **SHAPE, **MAMBA | {"mamba_d_ssm": None, "mamba_d_conv": 3, "mamba_conv_bias": False}, head_dim=6, mamba_rms_norm=True,
        mamba_norm_before_gate=False, attention_bias=True, mlp_bias=True, **MULTIPLIERS | {"attention_in_multiplier": 1.5})),
    "nemotron_h": lambda: NemotronHForCausalLM(NemotronHConfig(
        **WITHOUT_LAYERS | NEMOTRON, layers_block_type=["mamba", "mlp", "mamba", "mamba", "attention", "mlp"])),
    # All that the hub's models have not.
    "nemotron_h_bias": lambda: NemotronHForCausalLM(NemotronHConfig(
        **WITHOUT_LAYERS | NEMOTRON | {"mamba_num_heads": 3, "n_groups": 1, "mamba_head_dim": 5}, layers_block_type=["mlp", "attention", "mamba"],
        mlp_bias=True, use_conv_bias=False, conv_kernel=3)),
    "lfm2": lambda: Lfm2ForCausalLM(Lfm2Config(
        **SHAPE | {"num_hidden_layers": 3}, layer_types=["conv", "full_attention", "conv"], rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        block_multiple_of=4)),
    # All that the hub's models have not.
    "lfm2_bias": lambda: Lfm2ForCausalLM(Lfm2Config(
        **SHAPE, layer_types=["conv", "full_attention"], conv_bias=True, conv_L_cache=5, block_auto_adjust_ff_dim=False)),
    "lfm2_moe": lambda: Lfm2MoeForCausalLM(Lfm2MoeConfig(
        **SHAPE | {"num_hidden_layers": 3}, layer_types=["conv", "full_attention", "conv"], num_dense_layers=1, num_experts=5,
        num_experts_per_tok=2, moe_intermediate_size=10, routed_scaling_factor=1.5)),
    "qwen3_5_text": lambda: Qwen3_5ForCausalLM(Qwen3_5TextConfig(
        **SHAPE | {"num_hidden_layers": 3}, head_dim=8, layer_types=["linear_attention", "full_attention", "linear_attention"], **DELTA)),
    "qwen3_next": lambda: Qwen3NextForCausalLM(Qwen3NextConfig(
        **SHAPE | {"num_hidden_layers": 4, "tie_word_embeddings": False}, head_dim=8, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
        moe_intermediate_size=10, shared_expert_intermediate_size=12, mlp_only_layers=[2], **DELTA)),
    "gpt_oss": lambda: GptOssForCausalLM(GptOssConfig(
        **SHAPE | {"num_hidden_layers": 3, "tie_word_embeddings": False}, head_dim=6, num_local_experts=5, num_experts_per_tok=2,
        sliding_window=4, rope_parameters=YARN | {"truncate": False})),
    "granite_yarn": lambda: GraniteForCausalLM(GraniteConfig(
        **SHAPE, attention_bias=True, embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.6, attention_multiplier=0.3,
        rope_parameters=YARN | {"attention_factor": 1.25})),
}


# Olmo3's positions are scaled in layers without a window alone, as the paper has it (section 3.1), and as transformers 4.57 and llama.cpp
# compute; transformers 5 scales all since its parameters for each kind of layer (pull request 45945 of its repository).
def olmo3(model):
    plain = type(model.model.rotary_emb)(Olmo3Config(**SHAPE, rope_parameters={"rope_type": "default", "rope_theta": YARN["rope_theta"]}))

    def with_plain(module, args, kwargs):
        x = args[0] if args else kwargs["hidden_states"]
        return args, kwargs | {"position_embeddings": plain(x, torch.arange(x.shape[1])[None])}
    for layer, kind in zip(model.model.layers, model.config.layer_types):
        if kind == "sliding_attention":
            layer.register_forward_pre_hook(with_plain, with_kwargs=True)


# The config.json of a Granite as a MiniCPM's. Without a factor, transformers and MiniCPM's class take that of the positions.
def minicpm(folder):
    config = json.loads((folder / "config.json").read_text())
    rope = config.pop("rope_parameters")
    for key in ["embedding_multiplier", "residual_multiplier", "logits_scaling", "attention_multiplier"]:
        del config[key]
    config |= {"model_type": "minicpm", "architectures": ["MiniCPMForCausalLM"], "scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 8,
               "rope_theta": rope["rope_theta"], "rope_scaling": {key: value for key, value in rope.items() if key not in ["rope_theta", "factor", "attention_factor"]}}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def write(name, make):
    folder = OUT / name
    torch.manual_seed(1)
    model = make()
    deltas = name.startswith(("qwen3_5", "qwen3_next"))
    plus = 0 if name.startswith("gemma") or deltas else 1
    with torch.no_grad():
        for p in model.parameters():  # large, so that each part of the forward shows
            p.copy_(torch.randn_like(p) * (0.25 if deltas else 0.4) + (plus if p.dim() == 1 else 0))
        for name_of, b in model.named_buffers():  # as large as scores, so that it chooses
            if name_of.endswith("expert_bias"):
                b.copy_(torch.randn_like(b) * 0.4)
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                 experts_implementation="eager").eval()
    if name == "olmo3":
        olmo3(model)
    ids = torch.randint(0, 400, (1, 12))
    prompt, more = ids[0, :4].tolist(), []
    with torch.no_grad():
        logits = model(ids).logits.clone()
        for _ in range(12):
            more.append(int(model(torch.tensor([prompt + more])).logits[0, -1].argmax()))
    save_file({"input_ids": ids.to(torch.int32), "logits": logits, "prompt": torch.tensor(prompt, dtype=torch.int32),
               "greedy": torch.tensor(more, dtype=torch.int32), "fine_tuning": fine_tuning(model, ids)},
              folder / "expected.safetensors")
    if name == "minicpm":
        minicpm(folder)
    for file in folder.glob("*.safetensors"):
        file.chmod(0o644)


def main():
    for name in sys.argv[1:] or MODELS:
        write(name, MODELS[name])


main()
