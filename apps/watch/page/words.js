// The page's words in English and Chinese, and its numbers.
import { kept } from "./dom.js";

// Names in the files of a run that have words. Others must not meet the page's own words.
const NAMES = ["loss", "val_loss", "bits_per_byte", "tokens_per_second", "lr", "norm", "ms"].concat(
  ["cpu_percent", "memory_percent", "processor", "threads", "processes", "version", "cores", "products"],
  ["reward_margin", "reward_accuracy", "val_reward_margin", "val_reward_accuracy"],
);

const WORDS = {
  en: {
    title: "tapegrad: see it learn",
    watch: "See it learn",
    skip: "Skip to the charts",
    connecting: "connecting…",
    live: "live",
    lost: "no connection, trying again…",
    otherLanguage: "中文",
    light: "Light",
    dark: "Dark",
    runs: "Runs",
    noRunsIn: "There is no run in {0} yet. It appears here once it has begun:",
    search: "Search names, tags, options",
    allStates: "All",
    listed: "{0} of {1} runs",
    showListed: "Show these",
    hideAll: "Hide all",
    noMatch: "No run matches.",
    name: "name",
    state: "state",
    best: "best loss",
    tokens: "tokens",
    time: "time",
    changed: "changed options",
    andMore: ", and {0} more",
    detailsShort: "Details",
    detailsOf: "Details of {0}",
    close: "Close the details of {0}",
    edit: "Edit name, tags, notes",
    tagsField: "tags, with commas between them",
    notesField: "notes",
    save: "Save",
    cancel: "Cancel",
    notSaved: "Not saved: {0}",
    legend: "Runs in the charts",
    hide: "Take {0} out of the charts",
    axis: "Along",
    stepAxis: "steps",
    tokensAxis: "tokens",
    timeAxis: "time of training",
    cut: "▲▼ {0} values beyond the edge",
    full: "Some runs are left out: there are more than one server shows. Those in training and the newest are here.",
    show: "Show {0} in the charts",
    training: "training",
    ended: "ended",
    stopped: "stopped",
    failed: "failed",
    finished: "finished",
    error: "error",
    killed: "killed, or the power failed",
    early_stop: "stopped early",
    time_budget: "its time is over",
    atStep: "at step {0}",
    unknown: "no connection",
    step: "step",
    stepOf: "of {0}",
    left: "left",
    loss: "train loss",
    val_loss: "validation loss",
    bits_per_byte: "bits per byte",
    tokens_per_second: "tokens/s",
    lr: "learning rate",
    norm: "gradient norm",
    reward_margin: "reward margin",
    reward_accuracy: "reward accuracy",
    val_reward_margin: "validation reward margin",
    val_reward_accuracy: "validation reward accuracy",
    ms: "ms per step",
    cpu_percent: "machine: processors, %",
    memory_percent: "machine: memory, %",
    skipped: "skipped",
    skippedStep: "this step was skipped as an outlier",
    progress: "Steps done of {0}",
    details: "Command, machine, report",
    report: "Report of this run",
    copy: "Copy",
    copied: "Copied",
    copyCommand: "Copy the command line of step {0}",
    fromStep: "from step {0}",
    folder: "folder",
    talk: "talk to its model",
    processor: "processor",
    threads: "threads",
    processes: "processes",
    version: "version",
    cores: "cores",
    products: "products",
    compare: "What differs",
    same: "All options of these runs are the same.",
    option: "option",
    allOptions: "All options",
    charts: "Charts",
    lossChart: "Loss",
    lrChart: "Learning rate",
    normChart: "Norm of the gradient",
    tokensChart: "Tokens per second",
    scale: "Scale of the values",
    linear: "Linear",
    log: "Log",
    smoothing: "Smoothing",
    off: "Off",
    some: "Some",
    strong: "Strong",
    whole: "Whole run",
    smoothed: "{0}, smoothed",
    waiting: "Waiting for the first steps…",
    nothing: "No run is chosen.",
    keys: "Arrow keys read the values; + and − zoom, 0 shows all. Or drag over a part.",
    numbers: "As a table",
    samples: "Samples",
    lossAt: "{0} {1} at step {2}",
    noSamples: "No samples yet: train-gpt --sample-interval N writes one every N steps.",
    moreSamples: "Show all {0} samples",
    asked: "Question",
    wanted: "Wanted answer",
    given: "The model's answer",
    fewerSamples: "Show fewer",
    layers: "Layers",
    noLayers: "No statistics of layers: train-gpt --layer-stats N records them every N steps.",
    run: "run",
    statistic: "Statistic",
    gradient: "Gradient",
    weight: "Weight",
    update: "Update / weight",
    gradientAbout: "Mean |gradient| of each layer, before clipping. Where it fades, little is learnt.",
    weightAbout: "Mean |weight| of each layer.",
    updateAbout: "Mean |update| over mean |weight| of each layer: about 0.001 is usual.",
    layer: "layer",
    layersKind: "Layers",
    allLayers: "All layers",
    lines: "As lines",
    first: "first layer",
    last: "last layer",
    newest: "At step {0}",
    value: "value",
    inside: "Inside the model",
    insideAbout: "What the model makes of a text: each token's probability, attention, what each block adds.",
    text: "text",
    look: "Look inside",
    looking: "Computing… {0} s",
    talk: "Talk to it",
    opening: "Opening the newest checkpoint… {0} s",
    opened: "It is open at port {0}. If this page comes from another computer, forward that port, too: ssh -L {0}:localhost:{0} HOST",
    tooLong: "The text is longer than 4 kB. Please shorten it.",
    emptyText: "Please type a text first.",
    noInspect: "This server cannot look inside: the program inspect is not beside it.",
    noAnswer: "The server did not answer. Is it still running?",
    refused: "It did not work: {0}",
    seconds: "{0} s",
    minutes: "{0} min",
    hours: "{0} h {1} min",
    days: "{0} d {1} h",
    footer: "Everything on this page comes from the machine that serves it.",
  },
  zh: {
    title: "tapegrad：实时观察训练",
    watch: "实时观察训练",
    skip: "跳到图表",
    connecting: "正在连接……",
    live: "实时",
    lost: "连接中断，正在重试……",
    otherLanguage: "English",
    light: "浅色",
    dark: "深色",
    runs: "训练",
    noRunsIn: "{0} 中还没有训练。开始之后会显示在这里：",
    search: "搜索名称、标签、选项",
    allStates: "全部",
    listed: "{1} 个训练中的 {0} 个",
    showListed: "显示这些",
    hideAll: "全部隐藏",
    noMatch: "没有匹配的训练。",
    name: "名称",
    state: "状态",
    best: "最低损失",
    tokens: "token",
    time: "时间",
    changed: "不同的选项",
    andMore: "，另有 {0} 项",
    detailsShort: "详情",
    detailsOf: "{0} 的详情",
    close: "关闭 {0} 的详情",
    edit: "编辑名称、标签、备注",
    tagsField: "标签，用逗号分隔",
    notesField: "备注",
    save: "保存",
    cancel: "取消",
    notSaved: "未保存：{0}",
    legend: "图表中的训练",
    hide: "从图表中移除 {0}",
    axis: "横轴",
    stepAxis: "步",
    tokensAxis: "token",
    timeAxis: "训练时间",
    cut: "▲▼ {0} 个数值超出边界",
    full: "部分训练没有列出：数量超过了一个服务器的上限。这里是正在进行的和最新的训练。",
    show: "在图表中显示 {0}",
    training: "训练中",
    ended: "已完成",
    stopped: "已停止",
    failed: "出错",
    finished: "已完成",
    error: "出错",
    killed: "被强行终止或断电",
    early_stop: "提前停止",
    time_budget: "时间用尽",
    atStep: "第 {0} 步",
    unknown: "无连接",
    step: "步",
    stepOf: "共 {0}",
    left: "剩余",
    loss: "训练损失",
    val_loss: "验证损失",
    bits_per_byte: "比特／字节",
    tokens_per_second: "token／秒",
    lr: "学习率",
    norm: "梯度范数",
    reward_margin: "奖励差值",
    reward_accuracy: "奖励准确率",
    val_reward_margin: "验证奖励差值",
    val_reward_accuracy: "验证奖励准确率",
    ms: "毫秒／步",
    cpu_percent: "机器：处理器 %",
    memory_percent: "机器：内存 %",
    skipped: "跳过",
    skippedStep: "该步因数值异常被跳过",
    progress: "{0} 的已完成步数",
    details: "命令、机器、报告",
    report: "此训练的报告",
    copy: "复制",
    copied: "已复制",
    copyCommand: "复制第 {0} 步起的命令行",
    fromStep: "自第 {0} 步",
    folder: "文件夹",
    talk: "与模型对话",
    processor: "处理器",
    threads: "线程",
    processes: "进程",
    version: "版本",
    cores: "核心",
    products: "矩阵乘法",
    compare: "不同之处",
    same: "这些训练的选项全部相同。",
    option: "选项",
    allOptions: "全部选项",
    charts: "图表",
    lossChart: "损失",
    lrChart: "学习率",
    normChart: "梯度范数",
    tokensChart: "每秒 token 数",
    scale: "数值的刻度",
    linear: "线性",
    log: "对数",
    smoothing: "平滑",
    off: "关",
    some: "适中",
    strong: "强",
    whole: "全程",
    smoothed: "{0}（平滑）",
    waiting: "等待最初的几步……",
    nothing: "没有选中任何训练。",
    keys: "方向键读取数值；+ 和 − 缩放，0 显示全部。也可拖选一段。",
    numbers: "以表格显示",
    samples: "样本",
    lossAt: "{0} {1}（第 {2} 步）",
    noSamples: "还没有样本：train-gpt --sample-interval N 每 N 步写一段。",
    moreSamples: "显示全部 {0} 段样本",
    asked: "问题",
    wanted: "期望的回答",
    given: "模型的回答",
    fewerSamples: "收起",
    layers: "各层",
    noLayers: "没有各层的统计：train-gpt --layer-stats N 每 N 步记录一次。",
    run: "训练",
    statistic: "统计量",
    gradient: "梯度",
    weight: "权重",
    update: "更新／权重",
    gradientAbout: "各层 |梯度| 的平均值（裁剪之前）。颜色淡去之处，几乎学不到东西。",
    weightAbout: "各层 |权重| 的平均值。",
    updateAbout: "各层 |更新| 与 |权重| 平均值之比：通常约为 0.001。",
    layer: "层",
    layersKind: "层",
    allLayers: "所有层",
    lines: "折线",
    first: "第一层",
    last: "最后一层",
    newest: "第 {0} 步",
    value: "数值",
    inside: "模型内部",
    insideAbout: "模型如何处理一段文本：每个 token 的概率、注意力、每个块的贡献。",
    text: "文本",
    look: "看看内部",
    looking: "计算中…… {0} 秒",
    talk: "与它对话",
    opening: "正在打开最新的检查点…… {0} 秒",
    opened: "已在端口 {0} 打开。如果此页面来自另一台计算机，也请转发该端口：ssh -L {0}:localhost:{0} HOST",
    tooLong: "文本超过 4 kB，请缩短。",
    emptyText: "请先输入一段文本。",
    noInspect: "此服务器无法查看内部：同一目录下没有 inspect 程序。",
    noAnswer: "服务器没有响应。它还在运行吗？",
    refused: "失败：{0}",
    seconds: "{0} 秒",
    minutes: "{0} 分钟",
    hours: "{0} 小时 {1} 分",
    days: "{0} 天 {1} 小时",
    footer: "此页上的一切都来自提供它的这台机器。",
  },
};

export let language = kept.get("language") ?? (navigator.language.startsWith("zh") ? "zh" : "en");
if (!WORDS[language]) language = "en";

export function setLanguage(chosen) {
  language = chosen;
  kept.set("language", chosen);
}

/** The words of a key, with {0}, {1}… replaced. */
export function t(key, ...values) {
  return WORDS[language][key].replace(/\{(\d)\}/g, (_, i) => values[i]);
}

/** What a name of a file is called here: one of training's own has words, any other stands for itself. */
export function named(name) {
  return NAMES.includes(name) ? t(name) : name;
}

const END_WORDS = ["finished", "stopped", "error", "killed", "early stop", "time budget"];

/** What a call's end, or a run's reason, is called here; an error's sentence stands for itself. */
export function endWords(how) {
  return END_WORDS.includes(how) ? t(how.replace(" ", "_")) : how;
}

/** Fills in the words of the page's fixed parts: data-word is an element's text, data-label its name. */
export function fillWords() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  document.title = t("title");
  for (const element of document.querySelectorAll("[data-word]")) element.textContent = t(element.dataset.word);
  for (const element of document.querySelectorAll("[data-label]")) {
    element.setAttribute("aria-label", t(element.dataset.label));
  }
}

/** Whole numbers with separators. */
export function count(value) {
  return Math.round(value).toLocaleString(language === "zh" ? "zh-CN" : "en");
}

/** A moment (ISO 8601) as the reader's place writes it. */
export function dateTime(time) {
  const date = new Date(time);
  const parts = { dateStyle: "medium", timeStyle: "short" };
  return Number.isNaN(+date) ? time : date.toLocaleString(language === "zh" ? "zh-CN" : "en", parts);
}

/** A measured value with four digits that count. */
export function number(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 1e-3 || size >= 1e7) return value.toExponential(2).replace("e+", "e");
  if (size >= 1e4) return count(value);
  return value.toFixed(size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 0.1 ? 3 : 5);
}

export function duration(seconds) {
  if (seconds < 90) return t("seconds", Math.round(seconds));
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return t("minutes", minutes);
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return t("hours", hours, minutes % 60);
  return t("days", Math.floor(hours / 24), hours % 24);
}
