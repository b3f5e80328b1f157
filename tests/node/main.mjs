// What the official Node client sees of the OpenAI-compatible server at the URL that is given. Each check has a line of the output,
// with what was expected if it has failed; the exit code is then 1.
import * as tools from "./tools.mjs";
import chat from "./chat.mjs";
import completions from "./completions.mjs";
import errors from "./errors.mjs";
import leaving from "./leaving.mjs";
import models from "./models.mjs";
import responses from "./responses.mjs";

const [url, ...only] = process.argv.slice(2);
const use = tools.against(url);
let failed = 0;
for (const [topic, checks] of Object.entries({ chat, completions, responses, models, errors, leaving })) {
  for (const [name, check] of Object.entries(checks)) {
    const full = `${topic}: ${name}`;
    if (only.length > 0 && !only.some((word) => full.includes(word))) continue;
    try {
      await check(use);
      console.log(`ok      ${full}`);
    } catch (error) {
      failed++;
      console.log(`FAILED  ${full}: ${error.message}`);
    }
  }
}
process.exitCode = failed > 0 ? 1 : 0;
