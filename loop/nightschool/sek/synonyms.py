"""Words that developers use for each other, so that `folder` finds a page that says `directory`: a line is one group.

Each word is looked for beside its neighbours, which are worth less than the word itself. General vocabulary only: what is
special to a project belongs into its triggers. Chinese words stand beside English ones, for pages that mix both.
"""

from __future__ import annotations

from functools import cache

WORTH = 0.4
"""What a neighbour is worth beside the word itself."""

_GROUPS = """
folder directory dir path 目錄 目录 資料夾 文件夹
file document 檔案 文件
layout structure organization organisation arrangement hierarchy 結構 结构
repository repo codebase 儲存庫 仓库
executable binary bin command cli
binary executable program
stdout console print logger log output
debug troubleshoot diagnose inspect 除錯 調試 调试
bug error defect fault failure issue problem crash exception 錯誤 错误 異常 异常
fix repair resolve correct solve mend 修復 修复 修正
delete remove erase drop uninstall clean 刪除 删除 移除 清除 清空 解除
add create new introduce generate scaffold 新增 建立 添加 創建 创建 生成
change modify edit update alter adjust 修改 變更 更改 更新 編輯
rename move relocate 改名 移動
install setup deploy 安裝 安装 部署
deploy deployment production ship publish release rollout launch 發布 发布 上線
release version publish tag changelog bump 版本 發佈
run execute launch start invoke 執行 运行 啟動 启动
stop halt kill terminate abort shutdown 停止 終止
finish complete done end 完成 結束
check verify validate validation confirm ensure 檢查 检查 驗證 验证 確認
test spec unittest suite testing 測試 测试
mock stub fake fixture 模擬
coverage covered 覆蓋 覆盖
format style formatter prettier indentation layout 格式 排版
lint eslint linter static 靜態
comment docstring annotation 註解 注释
documentation docs doc guide manual readme tutorial 文檔 文档 說明 指南 手冊
website site web page 網站 网站
picture image screenshot photo figure 圖片 图片 截圖
auth authentication login signin authorization credential 認證 登入 登录 授權
password secret credential token key 密碼 密碼 密钥 金鑰
permission access authorization right role 權限 权限
user customer account member 使用者 用户 帳號
database db sql table schema storage 資料庫 数据库
query search lookup find 查詢 查询 搜尋 搜索
migration migrate upgrade 遷移 迁移 升級
cache caching memoize 快取 缓存
memory ram heap 記憶體 内存
speed performance fast slow latency optimize optimization perf 效能 性能 速度 優化 优化
parallel concurrent concurrency simultaneous thread async batch 並行 并行 併發 並發
server backend host service 伺服器 服务器 後端
client frontend browser ui interface 前端 介面 界面
network offline internet online connection 網路 网络 離線
endpoint api route url 端點 接口
request response http call 請求 请求
port host address
config configuration setting settings option preference parameter 設定 设置 配置 參數
environment env variable 環境 环境 變數 变量
default fallback 預設 默认
dependency package library module third-party requirement 依賴 依赖 套件 模組
import include require load 匯入 导入
export expose public visible 匯出 导出
build compile bundle bundler 建置 构建 編譯 编译
pipeline ci workflow action automation 流程 工作流 自動化
commit message push git 提交
branch merge rebase pr pull 分支 合併 合并
review reviewer approval approve 審查 审查
rule policy convention guideline standard principle 規則 规则 規範 规范 原則 原则
forbid forbidden prohibit never disallow ban 禁止 不要 絕對
must required mandatory always 必須 必须 務必 一定
name naming rename identifier casing 命名 名稱 名称
type typing interface typescript 型別 类型
function method procedure routine 函式 函数 方法
class object model entity 類別 物件 模型
component widget element view 元件 组件
list array collection 列表 清單
cost price pricing billing charge money expense usd dollar 成本 價格 价格 費用
token budget limit quota 額度 上限 限制
date time timestamp timezone clock 日期 時間 时间
language locale translation translate i18n localization 語言 语言 翻譯 翻译 本地化 在地化
chinese 中文 繁體 简体 簡體
agent assistant bot swarm subagent 代理
task job todo ticket work 任務 任务 工作
example sample demo 範例 示例 例子
analysis analyze analyse inspect examine 分析
history log timeline past 歷史 历史 時序
save store persist persistence write 儲存 保存 持久化
evidence proof citation source 證據 证据 佐證
confidence certainty probability 信心 把握
percent percentage ratio share proportion 比例 比率
size scale large small 規模 规模 大小
stage phase step 階段 阶段 步驟 步骤
report summary result 報告 报告 結果 总结
template boilerplate skeleton 模板 範本
job queue worker background 佇列 队列
mail email notification message 郵件 邮件 通知
upload download transfer 上傳 下载
hook callback event listener trigger 鉤子 触发 觸發
parse read decode 解析 讀取
retry repeat again attempt 重試 重试
security secure safe vulnerability 安全
monitor watch observe metric telemetry 監控 监控
"""


@cache
def _neighbours() -> dict[str, frozenset[str]]:
    from nightschool.sek.words import terms

    found: dict[str, set[str]] = {}
    for line in _GROUPS.strip().splitlines():
        group = [terms(word)[0] for word in line.split()]
        for word in group:
            found.setdefault(word, set()).update(group)
    return {word: frozenset(group - {word}) for word, group in found.items()}


def neighbours(term: str) -> frozenset[str]:
    """Terms that stand for the same thing as this one."""
    return _neighbours().get(term, frozenset())
