// The page: one screen with the database, the cause of slow operations, and the content.
import { html, render } from "./preact-htm.js";
import { Activity } from "./activity.js";
import { Charts } from "./charts.js";
import { Figures, Header } from "./header.js";
import { Keys } from "./keys.js";
import { Levels } from "./levels.js";
import { Notice } from "./notice.js";
import { start } from "./store.js";

const Page = () => html`
  <a class="skip" href="#keys">To the keys</a>
  <${Header} />
  <main>
    <${Figures} /><${Levels} />
    <${Charts} /><${Keys} /><${Activity} />
  </main>
  <${Notice} />`;

const place = document.getElementById("app");
place.textContent = "";
render(html`<${Page} />`, place);
start();
