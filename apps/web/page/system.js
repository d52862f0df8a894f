// What the engine calls of other libraries. utf8proc's functions go by the browser's own Unicode; of categories, the library tells letters (as 5),
// numbers (11), characters without a shape (0) and others (22) apart.
mergeInto(LibraryManager.library, {
  sched_getaffinity: function () { return -1; }, // nobody knows of more than one processor
  __sched_cpucount: function () { return 1; },
  utf8proc_category: function (code) {
    var character = String.fromCodePoint(code);
    return /\p{L}/u.test(character) ? 5 : /\p{N}/u.test(character) ? 11 : /[\p{C}\p{M}\p{Z}]/u.test(character) ? 0 : 22;
  },
  utf8proc_encode_char: function (code, place) {
    var bytes = new TextEncoder().encode(String.fromCodePoint(code));
    HEAPU8.set(bytes, place);
    return bytes.length;
  },
});
