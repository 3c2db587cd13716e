// The WebSocket to the program: comes back by itself when the program restarts, and answers requests by their id.

const WAIT = 2000; // milliseconds between attempts, for ever
// Requests that are answered by a message of their own type, without an id.
const ANSWERS = new Set(["node", "metrics", "pipeline", "history"]);

const REFUSED_BY_OK = new Set(["answer", "prediction", "learn"]); // `ok` of metrics is their verdict

const isRefusal = ({ type, ok, status }) => (ok === false && REFUSED_BY_OK.has(type)) || status === "failed";

export class Connection {
  constructor(address, { onmessage, onstate }) {
    Object.assign(this, { address, onmessage, onstate });
    this.name = Math.random().toString(36).slice(2, 8); // other pages ask, too, and some answers go to all of them
    this.next = 1;
    this.pending = new Map();
    this.open();
  }

  open() {
    const socket = new WebSocket(this.address);
    this.socket = socket;
    socket.addEventListener("open", () => this.onstate("connected"));
    socket.addEventListener("message", (event) => this.receive(JSON.parse(event.data)));
    socket.addEventListener("close", () => {
      for (const { reject } of this.pending.values()) reject(new Error("the program went away before it answered"));
      this.pending.clear();
      this.onstate("lost");
      setTimeout(() => this.open(), WAIT);
    });
  }

  receive(message) {
    for (const id of this.asked(message)) {
      const { resolve, reject } = this.pending.get(id);
      this.pending.delete(id);
      if (isRefusal(message)) reject(new Error(message.error ?? "refused"));
      else resolve(message);
    }
    this.onmessage(message);
  }

  // The requests that a message answers.
  asked(message) {
    if (message.id !== undefined)
      return this.pending.has(message.id) && message.status !== "running" ? [message.id] : [];
    if (!ANSWERS.has(message.type)) return [];
    const fits = ({ type, content }) =>
      type === message.type &&
      (type !== "node" || (content.capture === message.capture && content.node === message.node));
    return [...this.pending].filter(([, request]) => fits(request)).map(([id]) => id);
  }

  // Sends a request; the promise holds the answer, or fails with what the program said.
  ask(type, content = {}) {
    if (this.socket.readyState !== WebSocket.OPEN) return Promise.reject(new Error("the program is not connected"));
    const id = `${type}-${this.name}-${this.next++}`;
    return new Promise((resolve, reject) => {
      this.pending.set(id, { type, content, resolve, reject });
      this.socket.send(JSON.stringify({ type, id, ...content }));
    });
  }
}
