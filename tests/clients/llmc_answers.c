// usage: llmc_answers MODEL TOKENIZER QUESTIONS ANSWERS
// What llm.c's own functions make of its two files. Built with the folder of llm.c for includes; see
// nanogpt_llmc.sh. QUESTIONS are numbers of 32 bits: B, T, P, N, then B·T ids and the P of a prompt. ANSWERS
// are the logits (B, T, V), the N likeliest tokens that follow the prompt, and the text of these.
#define TESTING  // without its main()
#include "train_gpt2.c"

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  FILE* in = fopenCheck(argv[3], "rb");
  FILE* out = fopenCheck(argv[4], "wb");
  int sizes[4];
  freadCheck(sizes, sizeof(int), 4, in);
  const int B = sizes[0], T = sizes[1], P = sizes[2], N = sizes[3];
  int* ids = mallocCheck(B * T * sizeof(int));
  int* text = mallocCheck((P + N) * sizeof(int));
  freadCheck(ids, sizeof(int), B * T, in);
  freadCheck(text, sizeof(int), P, in);

  GPT2 model;
  gpt2_build_from_checkpoint(&model, argv[1]);
  gpt2_forward(&model, ids, NULL, B, T);
  const int V = model.config.vocab_size, Vp = model.config.padded_vocab_size;
  for (int i = 0; i < B * T; i++) fwrite(model.acts.logits + (size_t)i * Vp, sizeof(float), V, out);

  // As llm.c's own loop: all of the text at once, of which the rest is the token that ends texts.
  Tokenizer tokenizer;
  tokenizer_init(&tokenizer, argv[2]);
  if (!tokenizer.init_ok) return 1;
  for (int t = P; t < P + N; t++) text[t] = tokenizer.eot_token;
  gpt2_build_from_checkpoint(&model, argv[1]);  // it keeps the shape of its first forward
  for (int t = P; t < P + N; t++) {
    gpt2_forward(&model, text, NULL, 1, P + N);
    const float* probs = model.acts.probs + (size_t)(t - 1) * Vp;
    text[t] = 0;
    for (int v = 1; v < V; v++) {
      if (probs[v] > probs[text[t]]) text[t] = v;
    }
  }
  fwrite(text + P, sizeof(int), N, out);
  for (int t = P; t < P + N; t++) fputs(tokenizer_decode(&tokenizer, text[t]), out);
  fcloseCheck(out);
  return 0;
}
