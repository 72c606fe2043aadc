/* People ask in sentences: words that every page has are left out of what is searched for. */
(() => {
  const COMMON = new Set(
    ("a about all am an and any are as at be been by can did do does for from get had has have how i if in " +
      "into is it its me my no of on or our so than that the their them then there they this to too up was " +
      "we were what when where which who whose why will with you your").split(" "),
  );
  const SEARCH = 2;
  const send = window.Worker.prototype.postMessage;
  window.Worker.prototype.postMessage = function (message, ...rest) {
    if (message?.type === SEARCH && typeof message.data === "string") {
      const left = message.data.split(/\s+/).filter((word) => !COMMON.has(word.toLowerCase()));
      if (left.length > 0) message = { ...message, data: left.join(" ") };
    }
    return send.call(this, message, ...rest);
  };
})();
