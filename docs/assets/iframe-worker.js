// Browsers refuse web workers on pages opened from a file, and the site's search is one. There a hidden frame of the
// same page runs the worker's script instead; the search code asks whether IFrameWorker exists to find its own files.
if (location.protocol === "file:") {
  window.IFrameWorker = class IFrameWorker extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.srcdoc = "<body></body>"
      frame.addEventListener("load", () => this.start(frame.contentWindow, url), { once: true })
      document.body.append(frame)
    }

    start(scope, url) {
      scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = scope.document.createElement("script")
      script.src = url
      script.addEventListener("load", () => {
        this.postMessage = (data) => scope.dispatchEvent(new MessageEvent("message", { data }))
        this.waiting.forEach(this.postMessage)
      })
      scope.document.body.append(script)
    }

    postMessage(data) {
      this.waiting.push(data)
    }
  }
  window.Worker = window.IFrameWorker
}
