"""Words that carry no topic: they decide nothing when a page is looked for. Stems, as words.py makes them.

English, the words of a request, and the commonest function words of other languages. Words of obligation (never, always,
must, not) stay: they are what a rule says.
"""

from __future__ import annotations

_ENGLISH = """
a about after again all also although am an and ani anoth anyth are around as at back be becaus been befor
being below between both but by came can cannot cant come could couldnt d did didnt do doe doesnt done dont
down dure each either els etc ever everi everyth exact few for from further get give go goe gone got had has
hasnt have havent he her here hi him his how howev i id if ill im in instead into is isnt it ive just keep
kind know known let lets like littl look lot made make mani may mayb me mean might mine more most much my
myself near need next now of off ok okay on onc one onli onto or other our ours out over own pleas put quit
rather realli right s said same saw say see seem seen shall she should show so some someon someth somewher
sort still such sure take taken tell than thank that the their them themselv then there these they thing think
this those though through thus to togeth too took toward tri under until up upon us use veri want was wasnt
way we well went were werent what whatev when whenev where wherea whether which while who whole whom whose whi
will with within without wonder wont work would wouldnt yes yet you your yourself anyon anyway actual basic
current guess hello hey help hope mind quick suppos trying whats theres thats hows youd youll youre weve theyr
shouldnt happen
"""
_OTHERS = """
der das den dem des ein eine einen einem einer und oder ist sind nicht ich wir ihr von zu zum zur auf
fur im am wie was wo wenn wird werden kann soll muss bitte noch auch nur aus bei nach le la les un une du de
et ou est sont je nous vous il ell pour dan avec sur par que qui quoi comment si ne pas au aux ce cett el los
las una uno y o es son yo nosotro para con por como donde no al del se lo su mi gli e sono per che come dove
non nel della os as um uma sao com ond nao na do da и в на не что как это для с по из у к о от за при мы я вы
он она они или но а то же так бы ли есть быть
"""
_PAIRS = """
什麼 什么 怎麼 怎么 如何 應該 应该 需要 可以 我們 我们 我想 這個 这个 那個 那个 一個 一个 有沒 沒有 没有 是否
是不 不是 請問 请问 為什 为什 哪些 哪個 哪个 哪裡 哪里 時候 时候 現在 现在 就是 還是 还是 如果 要怎 該怎 怎樣
怎样 告訴 告诉 知道 的話 的时 的時 是什 麼時 樣的 一下 幫我 帮我 です ます する した して ない この その どう
ては には とは こと もの たい なに どこ ので から まで これ それ ください てく くだ ださ さい
"""
_SIGNS = """
的 了 是 在 我 你 要 嗎 吗 呢 吧 和 與 与 或 這 这 那 有 個 个 請 请 會 会 能 就 都 也 把 被 讓 让 給 给 對 对
上 下 中 不 一 到 為 为 時 时 麼 么 什 怎 該 该 想 們 们 它 他 她 之 其 以 及 於 于 並 并 很 更 最 後 后 前 裡
里 哪 些 可
"""

STOPWORDS = frozenset(f"{_ENGLISH} {_OTHERS} {_PAIRS} {_SIGNS}".split())
