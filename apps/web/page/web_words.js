// The words of web.js.
const texts = {
  en: {
    other: "中文", otherLanguage: "zh", theme: "Light or dark",
    loading: "Loading the model…", number: "a number is needed",
    facts: (f) => `${f.parameters.toLocaleString("en")} parameters, ${f.n_layer} blocks of ${f.n_head} heads, ` +
      `a context of ${f.block_size} tokens (${f.tokenizer === "char" ? "characters" : "byte pairs"}). ` +
      "It runs in this page: nothing that you type leaves it.",
    write: "Write",
    writeHint: "The model goes on with your text. The colour tells how likely each token was: blue is likely, orange is a surprise. " +
      "Point at a token, or use the arrow keys, to see what else it could have been.",
    prompt: "Your text (may be empty)", max_new_tokens: "new tokens", temperature: "temperature", top_k: "top-k (0: all)", seed: "seed",
    greedy: "always the likeliest", go: "Write", stop: "Stop", output: "The text that the model writes",
    rate: (n, rate) => `${counted(n, "token")}, ${rate} tokens/s`,
    chances: (token, p) => `${token} had probability ${p}. The likeliest tokens there:`,
    look: "Look inside", lookGo: "Look inside this text",
    lookHint: "What the model makes of the text above: its predictions, its attention, and the gradient of the loss for each token. " +
      "Of a long text, the end is shown.",
    learn: "Train it here",
    learnHint: "AdamW changes the weights so that your text becomes likelier. They change in this page alone, until it is loaded again.",
    text: "Text to learn", steps: "steps", batch_size: "batch size", learning_rate: "learning rate", train: "Train",
    forget: "Forget what it has learnt",
    learnt: (step, loss, ms) => `step ${step}: loss ${loss}, ${ms} ms a step`, forgotten: "The weights are as they were.",
    losses: (first, last, n) => `Loss of ${n} steps, from ${first} to ${last}`,
    empty: "There is no text yet.", gone: "The model could not be loaded:",
  },
  zh: {
    other: "English", otherLanguage: "en", theme: "浅色或深色",
    loading: "正在加载模型…", number: "需要一个数",
    facts: (f) => `${f.parameters.toLocaleString("zh")} 个参数，${f.n_layer} 个块，每块 ${f.n_head} 个头，` +
      `上下文 ${f.block_size} 个 token（${f.tokenizer === "char" ? "字符" : "字节对"}）。模型就在本页中运行，您输入的内容不会离开本页。`,
    write: "写作",
    writeHint: "模型会接着您的文本写下去。颜色表示每个 token 的可能性：蓝色很可能，橙色出乎意料。把鼠标移到 token 上，或用方向键，可以看到还有哪些可能。",
    prompt: "您的文本（可以为空）", max_new_tokens: "新 token 数", temperature: "温度", top_k: "top-k（0：全部）", seed: "随机种子",
    greedy: "总选最可能的", go: "写", stop: "停止", output: "模型写出的文本",
    rate: (n, rate) => `${n} 个 token，每秒 ${rate} 个`,
    chances: (token, p) => `${token} 的概率是 ${p}。此处最可能的 token：`,
    look: "看看内部", lookGo: "看这段文本的内部",
    lookHint: "模型如何处理上面的文本：它的预测、注意力，以及损失对每个 token 的梯度。文本很长时只显示结尾。",
    learn: "在本页训练",
    learnHint: "AdamW 会调整权重，让您的文本变得更可能。改变只在本页中，重新加载后就会消失。",
    text: "要学习的文本", steps: "步数", batch_size: "批大小", learning_rate: "学习率", train: "训练",
    forget: "忘掉学到的",
    learnt: (step, loss, ms) => `第 ${step} 步：损失 ${loss}，每步 ${ms} 毫秒`, forgotten: "权重已恢复原样。",
    losses: (first, last, n) => `${n} 步的损失，从 ${first} 到 ${last}`,
    empty: "还没有文本。", gone: "模型无法加载：",
  },
};
