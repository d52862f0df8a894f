// The page's words in English and Chinese.
import { filled, kept } from "./dom.js";

const WORDS = {
  en: {
    title: "tapegrad: talk",
    skip: "Skip to your message",
    connecting: "connecting…",
    live: "ready",
    lost: "no connection, trying again…",
    otherLanguage: "中文",
    light: "Light",
    dark: "Dark",
    conversations: "Conversations",
    newConversation: "New conversation",
    untitled: "New conversation",
    dropConversation: "Delete “{0}”",
    stayHere: "Conversations stay in this browser.",
    messages: "Messages",
    yourMessage: "Your message",
    yourText: "Your text",
    hint: "Write a message",
    hintText: "Write the beginning of a text",
    send: "Send",
    goOn: "Continue",
    stop: "Stop",
    keys: "Enter sends · Shift + Enter: a new line · Esc stops · ← → in an answer: its tokens",
    you: "You",
    model: "Model",
    text: "Text",
    edit: "Edit",
    save: "Save",
    saveAndSend: "Save and send",
    cancel: "Cancel",
    copy: "Copy",
    copied: "Copied",
    regenerate: "Write again",
    remove: "Delete",
    facts: "{0} {0:token:tokens} · {1} tokens/s · seed {2}",
    factsOfOne: "{0} {0:token:tokens} · seed {2}",
    cut: "cut at the limit",
    stopped: "stopped",
    emptyChat: "Say something",
    emptyChatMore: "The model answers through its own chat template.",
    emptyText: "Begin a text",
    emptyTextMore: "This model was not made for conversations: it continues what you write.",
    options: "Options",
    system: "System message",
    systemHelp: "What the model is told first",
    temperature: "Temperature",
    temperatureHelp: "0: always the likeliest token",
    top_p: "Top p",
    top_pHelp: "choose among the likeliest tokens that together have this probability",
    top_k: "Top k",
    top_kHelp: "choose among this many likeliest tokens; 0: among all",
    min_p: "Min p",
    min_pHelp: "keep tokens with at least this share of the highest probability",
    repetition_penalty: "Repetition penalty",
    repetition_penaltyHelp: "above 1: repeats are less likely",
    max_tokens: "Maximum length",
    max_tokensHelp: "of an answer, in tokens; empty: as many as fit",
    seed: "Seed",
    seedHelp: "equal seeds give equal answers; empty: a new one each time",
    shades: "Mark unlikely tokens",
    reset: "Reset options",
    chosen: "chosen",
    probability: "{0}: {1}",
    needsKey: "This server needs an API key.",
    useKey: "Use it",
    ended: "The answer was cut: the connection ended.",
    full: "This browser has no more room: older conversations are not kept.",
  },
  zh: {
    title: "tapegrad：对话",
    skip: "跳到输入框",
    connecting: "连接中…",
    live: "就绪",
    lost: "连接断开，正在重试…",
    otherLanguage: "English",
    light: "浅色",
    dark: "深色",
    conversations: "对话列表",
    newConversation: "新对话",
    untitled: "新对话",
    dropConversation: "删除“{0}”",
    stayHere: "对话只保存在此浏览器中。",
    messages: "消息",
    yourMessage: "你的消息",
    yourText: "你的文本",
    hint: "输入消息",
    hintText: "输入一段文本的开头",
    send: "发送",
    goOn: "续写",
    stop: "停止",
    keys: "Enter 发送 · Shift + Enter 换行 · Esc 停止 · 在回答中按 ← → 查看各个词元",
    you: "你",
    model: "模型",
    text: "文本",
    edit: "编辑",
    save: "保存",
    saveAndSend: "保存并发送",
    cancel: "取消",
    copy: "复制",
    copied: "已复制",
    regenerate: "重新生成",
    remove: "删除",
    facts: "{0} 个词元 · {1} 词元/秒 · 种子 {2}",
    factsOfOne: "{0} 个词元 · 种子 {2}",
    cut: "达到长度上限",
    stopped: "已停止",
    emptyChat: "说点什么吧",
    emptyChatMore: "模型按照它自己的模板回答。",
    emptyText: "写一段开头",
    emptyTextMore: "这个模型不是为对话训练的：它会续写你的文本。",
    options: "选项",
    system: "系统消息",
    systemHelp: "最先告诉模型的话",
    temperature: "温度",
    temperatureHelp: "0：总是选概率最大的词元",
    top_p: "Top p",
    top_pHelp: "在合计达到此概率的词元中选",
    top_k: "Top k",
    top_kHelp: "在概率最大的若干词元中选；0：全部",
    min_p: "Min p",
    min_pHelp: "只选不低于最大概率此比例的词元",
    repetition_penalty: "重复惩罚",
    repetition_penaltyHelp: "大于 1：减少重复",
    max_tokens: "最多词元数",
    max_tokensHelp: "每个回答；留空：能放下多少就多少",
    seed: "种子",
    seedHelp: "相同的种子得到相同的回答；留空：每次不同",
    shades: "标出概率小的词元",
    reset: "恢复默认选项",
    chosen: "已选",
    probability: "{0}：{1}",
    needsKey: "此服务器需要 API 密钥。",
    useKey: "使用",
    ended: "回答被中断：连接已断开。",
    full: "浏览器存储已满：较早的对话不再保留。",
  },
};

export let language = kept.get("language") ?? (navigator.language.startsWith("zh") ? "zh" : "en");
if (!WORDS[language]) language = "en";

/** The words of a name, with the values in them: see filled(). */
export function t(name, ...values) {
  return filled(WORDS[language][name], values);
}

export function setLanguage(next) {
  language = next;
  kept.set("language", next);
}

/** Fills in the words that the page's own elements name. */
export function fillWords() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  document.title = t("title");
  for (const element of document.querySelectorAll("[data-word]")) element.textContent = t(element.dataset.word);
  for (const element of document.querySelectorAll("[data-label]")) element.setAttribute("aria-label", t(element.dataset.label));
  for (const element of document.querySelectorAll("[data-hint]")) element.placeholder = t(element.dataset.hint);
}

export const percent = (logprob) => {
  const share = 100 * Math.exp(logprob);
  return `${share >= 99.95 ? "100" : share >= 10 ? share.toFixed(1) : share >= 0.01 ? share.toPrecision(2) : "< 0.01"} %`;
};
