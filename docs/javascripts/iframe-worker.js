// Search without a server. Browsers start no worker for a page that is opened from the file system,
// so the script of the worker runs in a hidden frame in its place.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html>";
      this.frame = frame;
      this.ready = new Promise((resolve, reject) => {
        frame.onload = () => {
          const inside = frame.contentWindow;
          const load = (address) =>
            new Promise((loaded, failed) => {
              const script = inside.document.createElement("script");
              script.src = address;
              script.onload = loaded;
              script.onerror = failed;
              inside.document.body.append(script);
            });
          inside.postMessage = (data) => {
            const event = new MessageEvent("message", { data });
            this.dispatchEvent(event);
            if (this.onmessage) this.onmessage(event);
          };
          inside.importScripts = (...urls) =>
            urls.reduce((before, each) => before.then(() => load(each)), Promise.resolve());
          load(new URL(url, document.baseURI).href).then(resolve, reject);
        };
      });
      document.documentElement.append(frame);
    }

    postMessage(data) {
      this.ready.then(() => {
        const inside = this.frame.contentWindow;
        inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      });
    }

    terminate() {
      this.frame.remove();
    }
  };
}
