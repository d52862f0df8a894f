#include "tapegrad/apps/serve/api/fields/field_rules.h"

namespace tapegrad::serve {
namespace {

constexpr std::string_view kAll = "", kNone = "[]", kEmptyList = "[[]]";
constexpr std::string_view kTools = "'tools' and 'tool_choice' say it";
constexpr std::string_view kFormat = "'response_format' says what a text may be";
constexpr std::string_view kVariable = "'chat_template_kwargs' may have what a template reads";
constexpr std::string_view kStored =
    "no response is stored here: 'input' has the whole conversation";
constexpr std::string_view kOneText = "there are texts alone";
constexpr std::string_view kOthers =
    "'top_k', 'top_p', 'min_p' and 'typical_p' say which tokens may come";
constexpr std::string_view kPenalties =
    "'repetition_penalty', 'presence_penalty' and 'frequency_penalty' are the penalties that there "
    "are";

constexpr FieldRule kRules[] = {
    // OpenAI's.
    {kInText | kInEmbedding, "user", kAll},
    {kInCompletion | kInChat, "metadata", kAll},
    {kInText, "safety_identifier", kAll},
    {kInText, "prompt_cache_key", kAll},
    {kInText, "prompt_cache_retention", kAll},
    {kInText, "service_tier", kAll},
    {kInText, "store", kAll},
    {kInChat, "prediction", kAll},
    {kInText, "best_of", "[1]", "each text that is made is returned; 'n' says how many"},
    {kInCompletion, "suffix", "[\"\"]", "texts are continued at their end"},
    {kInCompletion | kInResponse, "messages", kEmptyList, "it is a field of /v1/chat/completions"},
    {kInChat | kInTemplate, "prompt", R"(["",[]])", "it is a field of /v1/completions"},
    {kInChat | kInTemplate, "functions", kEmptyList, kTools},
    {kInChat | kInTemplate, "function_call", R"(["auto","none"])", kTools},
    {kInChat, "modalities", R"([["text"]])", kOneText},
    {kInChat, "audio", kNone, kOneText},
    {kInChat, "web_search_options", kNone, "nothing is searched"},
    {kInStream, "include_obfuscation", kAll},
    {kInSchema | kInTextFormat, "name", kAll},
    {kInSchema | kInTextFormat, "description", kAll},
    {kInSchema | kInTextFormat, "strict", kAll},  // texts always fit the schema
    // OpenAI's of responses.
    {kInResponse, "previous_response_id", kNone, kStored},
    {kInResponse, "conversation", kNone, kStored},
    {kInResponse, "prompt", kNone,
     "no prompts are stored here: 'instructions' and 'input' have it"},
    {kInResponse, "background", "[false]", "an answer comes to whoever asks for it"},
    {kInResponse, "n", "[1]", "a response has one text"},
    {kInResponse, "response_format", kNone, "'text.format' says what a text may be"},
    {kInResponse, "max_tool_calls", kAll},  // of tools that this server has: none
    {kInResponse, "client_metadata", kAll},
    {kInResponse, "prompt_cache_options", kAll},
    {kInItem, "id", kAll},
    {kInItem, "status", kAll},
    {kInItem, "phase", kAll},
    {kInItem, "parsed_arguments", kAll},  // what OpenAI's library makes of an answer
    {kInPart, "parsed", kAll},
    {kInPart, "annotations", kAll},
    {kInPart, "logprobs", kAll},
    {kInPart, "prompt_cache_breakpoint", kAll},
    {kInReasoning, "summary", kAll},  // none is made
    {kInReasoning, "generate_summary", kAll},
    // vLLM's.
    {kInText, "use_beam_search", "[false]", "texts are drawn token by token"},
    {kInText, "length_penalty", "[1]", "texts are drawn token by token"},
    {kInText, "skip_special_tokens", "[true]", "'ignore_eos' shows the tokens that end a text"},
    {kInText, "include_stop_str_in_output", "[false]", "a text ends before its stop"},
    {kInText | kInEmbedding, "truncate_prompt_tokens", kNone, "a prompt is read as a whole"},
    {kInCompletion, "add_special_tokens", "[true]", "a text is begun as the tokenizer begins one"},
    {kInChat | kInResponse, "add_special_tokens", "[false]",
     "the template has what a text begins with"},
    {kInText, "bad_words", kEmptyList, "'logit_bias' makes tokens unlikely"},
    {kInText, "allowed_token_ids", kNone, "'logit_bias' makes tokens likely"},
    {kInText, "logits_processors", kEmptyList, "'logit_bias' changes logits"},
    {kInText, "structured_outputs", kNone, kFormat},
    {kInText, "guided_json", kNone, kFormat},
    {kInText, "guided_regex", "[\"\"]", kFormat},
    {kInText, "guided_choice", kNone, kFormat},
    {kInText, "guided_grammar", "[\"\"]", kFormat},
    {kInChat | kInTemplate | kInResponse, "chat_template", "[\"\"]",
     "the model's own template is used"},
    {kInChat | kInTemplate | kInResponse, "documents", kEmptyList, kVariable},
    // llama.cpp's, and those of programs that come from it.
    {kInText, "repeat_penalty", "[1]", kPenalties},
    {kInText, "repeat_last_n", kAll},  // without penalties: see read_text_request()
    {kInText, "no_repeat_ngram_size", "[0]", kPenalties},
    {kInText, "dry_multiplier", "[0]", kPenalties},
    {kInText, "dry_base", kAll},
    {kInText, "dry_allowed_length", kAll},
    {kInText, "dry_penalty_last_n", kAll},
    {kInText, "dry_sequence_breakers", kAll},
    {kInText, "xtc_probability", "[0]", kOthers},
    {kInText, "xtc_threshold", kAll},
    {kInText, "dynatemp_range", "[0]", kOthers},
    {kInText, "dynatemp_exponent", kAll},
    {kInText, "mirostat", "[0]", kOthers},
    {kInText, "mirostat_tau", kAll},
    {kInText, "mirostat_eta", kAll},
    {kInText, "top_n_sigma", "[-1,0]", kOthers},
    {kInText, "top_a", "[0]", kOthers},
    {kInText, "tfs_z", "[1]", kOthers},
    {kInText, "grammar", "[\"\"]", kFormat},
    {kInText, "json_schema", kNone, kFormat},
    {kInText, "lora", kEmptyList, "'model' names an adapter"},
    {kInText, "cache_prompt", kAll},
    {kInText, "id_slot", kAll},
    {kInFormat, "schema", kNone, "'response_format.json_schema' has a schema"},
    {kInEmbedding, "normalize", "[true]", "vectors have length 1"},
};

}  // namespace

std::span<const FieldRule> field_rules() { return kRules; }

}  // namespace tapegrad::serve
