// SPDX-License-Identifier: Apache-2.0
// The page of an explanation: headings, paragraphs and tables, no script, nothing from outside.
#include <fmt/format.h>

#include "cli/explain_report.h"

namespace headwise::cli {
namespace {

constexpr const char* kStyle =
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;"
    "background:#fff}"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin:2rem 0 .4rem}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;margin:.8rem 0;font-variant-numeric:tabular-nums;"
    "font-size:.92rem}"
    "caption{text-align:left;font-weight:600;padding:.2rem 0}th,td{padding:.15rem .7rem;text-align:right;"
    "border-bottom:1px solid #ddd}th:first-child,td:first-child,.words th,.words td{text-align:left}"
    "th{font-weight:600}nav a{margin-right:.9rem}a{color:#0057a8}"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}th,td{border-color:#3a3a3a}"
    "a{color:#7db7f0}}";

std::string escaped(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += letter;
    }
  }
  return result;
}

std::string table_html(const ExplainTable& table) {
  const bool words =
      !table.rows.empty() && table.rows.front().size() > 1 && table.rows.front()[1].find(' ') != std::string::npos;
  std::string html = fmt::format("<div class=\"scroll\"><table{}><caption>{}</caption><thead><tr>",
                                 words ? " class=\"words\"" : "", escaped(table.title));
  for (const std::string& column : table.columns) html += "<th scope=\"col\">" + escaped(column) + "</th>";
  html += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      html += i == 0 ? "<th scope=\"row\">" + escaped(row[i]) + "</th>" : "<td>" + escaped(row[i]) + "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string section_html(const ExplainSection& section) {
  std::string html = fmt::format("<section id=\"{}\"><h2>{}</h2>\n", section.id, escaped(section.title));
  for (const std::string& paragraph : section.paragraphs) html += "<p>" + escaped(paragraph) + "</p>\n";
  for (const ExplainTable& table : section.tables) html += table_html(table);
  for (const std::string& conclusion : section.conclusions) html += "<p>" + escaped(conclusion) + "</p>\n";
  return html + "</section>\n";
}

}  // namespace

std::string explain_html(const ExplainReport& report) {
  std::string links, body;
  const auto add = [&](const ExplainSection& section) {
    links += fmt::format("<a href=\"#{0}\">{0}</a>\n", section.id);
    body += section_html(section);
  };
  for (const ExplainSection& step : report.found.steps) add(step);
  for (const ExplainSection& section : report.found.what_ifs) add(section);
  add(report.found.widths);
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>headwise explain: {}</title><style>{}</style></head><body>\n<h1>One input through multi-head "
      "attention</h1>\n",
      escaped(report.layer), kStyle);
  for (const std::string& line : explain_headline(report)) html += "<p>" + escaped(line) + "</p>\n";
  return html + "<nav>\n" + links + "</nav>\n" + table_html(path_rows(report.found)) + body + "</body></html>\n";
}

}  // namespace headwise::cli
